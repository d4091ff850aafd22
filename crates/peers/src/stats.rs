//! What is counted between nodes.

base::counters! {
    /// Counters of one core.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PeersStats {
        /// Requests that were passed on to the nodes that own their volumes.
        pub forwarded: u64 = counter("forwarded_requests"),
        /// Requests that were passed on, did not happen there, and were judged again.
        pub returned: u64 = counter("returned_requests"),
        /// Requests that were with another node when its link closed.
        pub lost: u64 = counter("lost_requests"),
        /// Requests whose hosts had gone before they were answered.
        pub cancelled: u64 = counter("cancelled_requests"),
        /// Requests of other nodes that were carried out here.
        pub served: u64 = counter("served_requests"),
        /// Requests of other nodes that were not allowed to begin: too old, cancelled, or judged by another view.
        pub refused: u64 = counter("refused_requests"),
        /// Links for requests that were opened.
        pub links_opened: u64 = counter("links_opened"),
        /// Links for requests that closed.
        pub links_closed: u64 = counter("links_closed"),
        /// TLS handshakes that were completed.
        pub tls_handshakes: u64 = counter("link_tls_handshakes"),
        /// Connections that were given up before they became a link: a key that is not ours, TLS at one end only, nobody that is known.
        pub refused_connections: u64 = counter("link_connections_refused"),
        /// Connections of others that had not said who they are, and were closed to make room.
        pub evicted_connections: u64 = counter("link_connections_evicted"),
    }
}
