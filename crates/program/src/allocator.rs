//! The allocator of the program: mimalloc and its options, a store of large blocks above it, and
//! the count of each thread's allocations, which enforces the memory limits of statements.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use mimalloc::MiMalloc;
use thalweg_env::{Clock as _, Metered, RealClock, RealThreads, Recycling, Threads as _};

#[global_allocator]
static ALLOCATOR: Metered<Recycling<MiMalloc>> = Metered::new(Recycling::new(MiMalloc));

// SAFETY: declared as in mimalloc's header; any thread may call them at any time.
unsafe extern "C" {
    /// Frees the memory that the calling thread caches. With `force`, returns all memory that any
    /// thread has freed to the system.
    safe fn mi_collect(force: bool);
    /// Sets an option by its number in the header.
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// `mi_option_arena_eager_commit`.
const ARENA_EAGER_COMMIT: c_int = 4;
/// `mi_option_purge_delay`, in milliseconds.
const PURGE_DELAY: c_int = 15;

/// Interval at which unused large blocks are freed.
const TRIM_EVERY: Duration = Duration::from_secs(2);

/// Starts the thread that frees unused large blocks. If no thread can be started, the blocks are
/// kept until memory is short.
pub fn start_trimming() {
    let trim = || {
        loop {
            RealClock::new().sleep(TRIM_EVERY);
            ALLOCATOR.beneath().trim();
        }
    };
    let _ = RealThreads.spawn("memory", Box::new(trim));
}

/// Gives memory that was freed back to the system.
pub fn give_back() {
    ALLOCATOR.beneath().give_back();
    mi_collect(true);
}

/// mimalloc commits memory in pieces instead of a gigabyte at a time: without partly used huge
/// pages it can return memory in pieces. Tables at rest become a tenth smaller, and loading them
/// takes no longer.
///
/// Freed memory is kept for later queries for ten seconds. With mimalloc's own delay of one second,
/// queries with large results took up to twice as long, because the system had to clear their
/// memory again. When memory is short it is returned at once.
extern "C" fn set_up() {
    mi_option_set(ARENA_EAGER_COMMIT, 0);
    mi_option_set(PURGE_DELAY, 10_000);
}

/// The first gigabyte is taken with the first allocation, which comes before `main`.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: what stands in this section is called once, before anything else of the program; setting
// an option allocates nothing and needs nothing that is set up later.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = set_up;
