//! Interns group names as numbers. A group exists while the queue contains a key of the group, so unused
//! names take no memory.
//!
//! # Invariants
//! 1. `table` holds exactly the groups with users. 2. [`NO_GROUP`] means no group and has no name.

use std::sync::Arc;

use hashbrown::HashTable;

/// The group of every key in a queue that has no groups.
pub(super) const NO_GROUP: u32 = u32::MAX;

#[derive(Debug)]
struct Group {
    name: Arc<str>,
    hash: u64,
    users: u32,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    list: Vec<Group>,
    table: HashTable<u32>,
    free: Vec<u32>,
}

impl Groups {
    /// Returns the number of the group with this name, and counts one more key of the group. Each key takes a
    /// slot, so there are fewer groups than slot numbers.
    pub(super) fn enter(&mut self, name: &str, hash: u64) -> u32 {
        let Self { list, table, free } = self;
        if let Some(&id) = table.find(hash, |&id| *list[id as usize].name == *name) {
            list[id as usize].users += 1;
            return id;
        }
        let group = Group { name: name.into(), hash, users: 1 };
        let id = match free.pop() {
            Some(id) => {
                list[id as usize] = group;
                id
            }
            None => {
                list.push(group);
                u32::try_from(list.len() - 1).unwrap_or(NO_GROUP)
            }
        };
        table.insert_unique(hash, id, |&id| list[id as usize].hash);
        id
    }

    #[inline]
    pub(super) fn leave(&mut self, id: u32) {
        if id == NO_GROUP {
            return;
        }
        let group = &mut self.list[id as usize];
        group.users -= 1;
        if group.users > 0 {
            return;
        }
        group.name = Arc::default();
        if let Ok(entry) = self.table.find_entry(group.hash, |&other| other == id) {
            entry.remove();
        }
        self.free.push(id);
    }

    pub(super) fn name(&self, id: u32) -> Option<Arc<str>> {
        self.list.get(id as usize).map(|group| Arc::clone(&group.name))
    }

    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.table.iter().map(|&id| self.list[id as usize].users as usize).sum()
    }
}
