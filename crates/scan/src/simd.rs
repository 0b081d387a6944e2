//! Runs loops with the widest vector instructions of the processor.
//!
//! The compiler vectorizes plain loops over slices, but only with instructions that every processor
//! of the family has. [`widest`] compiles a closure again for newer processors and selects a
//! version at run time. The closure should be a loop long enough to be worth a call, with
//! everything in it inlined.
//!
//! Invariant: a function with `target_feature` is called only after each of its features was
//! detected.

/// Runs a closure with the widest instructions available.
#[inline]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: the processor has all features of the function.
            return unsafe { in_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has all features of the function.
            return unsafe { in_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("bmi2")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2,avx2")]
fn in_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn in_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(test)]
mod tests {
    use super::widest;

    #[test]
    fn work_is_done_once_and_its_answer_comes_back() {
        let values: Vec<i64> = (0..1000).collect();
        let mut calls = 0;
        let sum = widest(|| {
            calls += 1;
            values.iter().sum::<i64>()
        });
        assert_eq!((sum, calls), (499_500, 1));
    }
}
