//! What frank-os does on a real machine and on made-up cgroup trees.

mod anon_buffer;
mod cgroup;
mod data_file;
mod facts;
mod nameless_file;
mod read_queue;
mod small_file;
