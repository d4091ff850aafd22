//! What a read may show, and when it is answered.

use super::*;

pub fn a_read_shows_nothing_that_is_not_on_all_copies() {
    in_world(async |rt| {
        let mut waited = 0;
        for seed in 0..20 {
            let mut rig = Rig::new(rt, seed, &[0, 1]);
            rig.held_up.insert(1);
            rig.submit(1, read(3));
            let mut done = rig.turns(seed as usize % 6).await;
            rig.submit(2, write(3, 7));
            done.extend(rig.turns(100).await);
            assert!(done.iter().all(|done| done.token == 1 && done.data[0].buf[0] == 0), "seed {seed}: node 1 has not got it");
            waited += usize::from(done.is_empty());
            if seed % 2 == 0 {
                rig.command(&Command::Stop);
                let ended = rig.turns(50).await;
                assert!(
                    ended.len() + done.len() == 2
                        && ended.iter().all(|done| matches!(done.result, Err(IoError::Closing | IoError::NoPath))),
                    "seed {seed}"
                );
            } else {
                rig.held_up.clear();
                assert_eq!(rig.turns(100).await.len() + done.len(), 2, "seed {seed}");
            }
        }
        assert!((3..18).contains(&waited), "{waited} of 20");
    });
}

pub fn a_read_is_answered_while_the_other_nodes_grant_it() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.grants(rt, false);
        rig.submit(1, read(3));
        assert!(rig.turns(200).await.is_empty(), "no grant");
        rig.grants(rt, true);
        assert_eq!(rig.turns(200).await.len(), 1);
    });
}

pub fn a_grant_is_looked_at_when_the_data_is_there_by_the_clock_of_then() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        let (mut counter, clock) = (Counter::new(), rt.boot_clock());
        let cell = counter.own(ObjectId::from_bytes([7; 16]), Epoch(1), &[node(1)], clock).expect("there is room");
        rt.sleep(Duration::from_millis(1)).await;
        let sent = rt.boot_clock();
        counter.opened(node(1), sent);
        assert!(counter.heartbeat(node(1), sent).is_some());
        counter.granted(node(1), &Grant { clock: Some(sent), objects: vec![] }, sent, &mut vec![]).expect("it was asked for");
        rig.nodes[0].set_cell(rt, VOLUME, Some(Arc::clone(&cell)));
        assert_eq!(rig.answer(read(3)).await.result, Ok(()), "it is granted");
        rt.sleep(Duration::from_millis(900)).await;
        rig.submit(1, read(3));
        assert!(rig.turns(200).await.is_empty(), "the grant has run out");
    });
}
