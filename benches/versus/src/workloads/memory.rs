//! What do 256 idle threads and a queued job cost in memory, and the idle threads in CPU?

use crate::common::Failure;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Measured, Subject};
use crate::common::verdict::Target;
use crate::contenders::{Bare, Full, Kind, Pool, each_contender, each_of_ours};
use crate::probe::{Topic, ask};

use super::{beside_the_best, twins};

pub(super) fn workloads() -> Vec<Workload<'static>> {
    let value = |figure, limit| Row {
        figure,
        of: Full::NAME.into(),
        against: Against::Nothing,
        target: Some(Target::AtMost(limit)),
        margin: 0.2,
        twins: twins(Full::NAME),
    };
    vec![
        Workload {
            name: "256 idle threads".into(),
            in_quick: true,
            rows: vec![
                value("resident_mb", 6.0),
                value("idle_cpu_percent", 0.1),
                beside_the_best("resident_mb", Full::NAME, None),
            ],
            // A round takes 1.5 s for each of them.
            measure: Box::new(|options| measure(options.pick(1, 5), Topic::Threads)),
        },
        Workload {
            name: "100,000 queued jobs".into(),
            in_quick: true,
            rows: [Bare::NAME, Full::NAME]
                .map(|of| beside_the_best("bytes_per_job", of, None))
                .into(),
            measure: Box::new(|options| measure(options.pick(3, 5), Topic::Queue)),
        },
    ]
}

fn measure(rounds: usize, topic: Topic) -> Result<Measured, Failure> {
    let mut subjects = Vec::new();
    subjects.extend(each_contender!(P => Subject::new(P::NAME, move || ask(topic, P::NAME))));
    subjects.extend(each_of_ours!(P => Subject::new(P::NAME, move || ask(topic, P::NAME))));
    Measured::of(rounds, subjects)
}
