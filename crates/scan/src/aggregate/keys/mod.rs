//! Groups: maps the GROUP BY columns of rows to the numbers of groups, and back.
//!
//! A key is a compact array of words ([`layout`]): integers as they are, texts as the number that
//! an [`interner`] assigned. [`groups`] finds a key's number in a hash table, or for dense integer
//! keys ([`numbers`]) in a direct-address table. [`direct`] avoids the lookup if the rows of a
//! chunk have few keys that can be computed from codes, and [`runs`] if neighbouring rows have the
//! same key.

mod direct;
mod groups;
mod hash;
mod interner;
mod layout;
mod numbers;
mod runs;
mod slots;
mod table;

pub(crate) use direct::{Direct, Ids};
pub(crate) use groups::{Groups, KeyValues, WORDS_MAX};
pub(crate) use hash::mix;
pub(crate) use interner::Interner;
pub(crate) use layout::{Kind, Layout};
pub(crate) use runs::{Run, Runs, each_in_runs, each_run};
