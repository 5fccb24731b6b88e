//! What a good engineer writes by hand: threads fed from a bounded crossbeam channel. The answer
//! comes back through a fresh channel of one, or through a slot whose waiter is unparked.

use std::marker::PhantomData;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Job, Pool};
use crate::common::Failure;

type Boxed = Box<dyn FnOnce() + Send>;

/// The threads, with a way `R` for answers to come back.
pub(crate) struct Channel<R> {
    jobs: Sender<Boxed>,
    threads: Vec<JoinHandle<()>>,
    reply: PhantomData<fn() -> R>,
}

/// How an answer comes back.
pub(crate) trait Reply: 'static {
    const NAME: &'static str;
    type Sender: Send + 'static;
    type Receiver: Send;
    fn pair() -> (Self::Sender, Self::Receiver);
    fn send(to: Self::Sender, value: u64);
    fn receive(from: Self::Receiver) -> Result<u64, Failure>;
}

/// By a crossbeam channel of one.
pub(crate) struct Replied;

impl Reply for Replied {
    const NAME: &'static str = "crossbeam-channel + bounded(1)";
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn pair() -> (Self::Sender, Self::Receiver) {
        bounded(1)
    }

    fn send(to: Self::Sender, value: u64) {
        // Nobody may be waiting any more.
        let _ = to.send(value);
    }

    fn receive(from: Self::Receiver) -> Result<u64, Failure> {
        Ok(from.recv()?)
    }
}

/// By `oneshot`: one word and a parked thread.
pub(crate) struct Parked;

impl Reply for Parked {
    const NAME: &'static str = "crossbeam-channel + oneshot";
    type Sender = oneshot::Sender<u64>;
    type Receiver = oneshot::Receiver<u64>;

    fn pair() -> (Self::Sender, Self::Receiver) {
        oneshot::channel()
    }

    fn send(to: Self::Sender, value: u64) {
        // Nobody may be waiting any more.
        let _ = to.send(value);
    }

    fn receive(from: Self::Receiver) -> Result<u64, Failure> {
        Ok(from.recv()?)
    }
}

impl<R: Reply> Pool for Channel<R> {
    const NAME: &'static str = R::NAME;
    type Handle = R::Receiver;

    fn start(workers: usize, queue: usize) -> Result<Self, Failure> {
        let (jobs, queue) = bounded::<Boxed>(queue);
        let threads = (0..workers).map(|_| {
            let queue = queue.clone();
            thread::Builder::new().spawn(move || {
                for job in queue {
                    job();
                }
            })
        });
        Ok(Self { jobs, threads: threads.collect::<Result<_, _>>()?, reply: PhantomData })
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        let (sender, receiver) = R::pair();
        self.jobs
            .send(Box::new(move || R::send(sender, job())))
            .map_err(|_| "the threads are gone")?;
        Ok(receiver)
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        R::receive(handle)
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        let job = move || {
            job();
        };
        Ok(self.jobs.send(Box::new(job)).map_err(|_| "the threads are gone")?)
    }

    fn stop(self) -> Result<bool, Failure> {
        drop(self.jobs);
        for thread in self.threads {
            thread.join().map_err(|_| "a thread panicked")?;
        }
        Ok(true)
    }
}
