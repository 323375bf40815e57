//! The resources that the processes of a server have used, as reported by the operating system.

#[derive(Clone, Debug)]
pub(crate) struct Processes {
    pub(crate) server: Vec<u32>,
    /// Other processes that the server needs, such as etcd. Their processor time is added to that of the
    /// server, but their memory is not.
    pub(crate) beside: Vec<u32>,
}

impl Processes {
    /// Returns the resident memory of the server in megabytes; zero if the system does not report it.
    pub(crate) fn resident(&self) -> f64 {
        let of = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or_default()
        };
        self.server.iter().map(of).sum::<f64>() / 1024.0
    }

    /// Returns the processor time of the server and of the other processes that it needs, in seconds; zero if
    /// the system does not report it.
    pub(crate) fn cpu(&self) -> f64 {
        /// The number of clock ticks per second, constant since Linux 2.6. `/proc` reports processor times in
        /// clock ticks.
        const TICKS: f64 = 100.0;
        let of = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The second field of `/proc/PID/stat` is the program name in parentheses, which may contain
            // spaces. The 14th and the 15th field are the user and system time.
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            let ticks =
                |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
            ticks(11) + ticks(12)
        };
        self.server.iter().chain(&self.beside).map(of).sum::<f64>() / TICKS
    }
}
