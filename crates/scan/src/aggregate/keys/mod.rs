//! Groups: from the columns that rows are grouped by to the groups' numbers, and back.
//!
//! A key is a compact row of words ([`layout`]): whole numbers as they are, texts as the number
//! that an [`interner`] gave them. [`groups`] finds a key's number in a hash table, or where whole
//! [`numbers`] lie close together in a table of all of them; [`direct`]
//! spares the look-up where the rows of a chunk have few keys that can be told from codes, and
//! [`runs`] where neighbouring rows have the same key.

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
