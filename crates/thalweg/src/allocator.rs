//! The allocator of the program: mimalloc, how it is set up, a store of large blocks above it, and
//! the count of what each thread takes, by which statements are held to their limits.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use mimalloc::MiMalloc;
use thalweg_env::{Clock as _, Metered, RealClock, RealThreads, Recycling, Threads as _};

#[global_allocator]
static ALLOCATOR: Metered<Recycling<MiMalloc>> = Metered::new(Recycling::new(MiMalloc));

// SAFETY: declared as in mimalloc's header; any thread may call them at any time.
unsafe extern "C" {
    /// Frees what the calling thread keeps and, with `force`, gives all that any thread has freed
    /// back to the system.
    safe fn mi_collect(force: bool);
    /// Sets an option by its number in the header.
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// `mi_option_arena_eager_commit`.
const ARENA_EAGER_COMMIT: c_int = 4;
/// `mi_option_purge_delay`, in milliseconds.
const PURGE_DELAY: c_int = 15;

/// How often it is seen which large blocks nobody wants any more.
const TRIM_EVERY: Duration = Duration::from_secs(2);

/// Starts the thread that gives up large blocks which nobody wants. Where the system has no thread
/// for that, they are kept until memory is short.
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

/// Memory that is taken from the system in pieces, and not by the gigabyte, has no huge pages that
/// are used in part and can be given back in pieces: tables at rest are a tenth smaller so, and
/// loading them takes no longer.
///
/// What one question has freed is kept for the next ones: after a second, which is mimalloc's own
/// delay, questions with large answers took up to twice as long, for the system to clear their
/// memory. Where memory is short it is given back at once.
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
