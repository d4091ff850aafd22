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
                        && ended.iter().all(|done| matches!(done.result, Err(IoError::NotOwner | IoError::NoPath))),
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

/// An owner that was taken over may not know of a reservation that the next one serves.
pub fn a_flush_is_answered_as_a_read_is() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        assert!(rig.nodes[0].may_answer(rt, VOLUME) && rig.answer(IoOp::Flush).await.result == Ok(()));
        rig.grants(rt, false);
        assert!(!rig.nodes[0].may_answer(rt, VOLUME) && !rig.nodes[1].may_answer(rt, VOLUME), "node 1 does not own it");
        rig.submit(1, IoOp::Flush);
        assert!(rig.turns(200).await.is_empty(), "no grant");
        rig.grants(rt, true);
        assert_eq!(rig.turns(200).await.len(), 1);
        rig.grants(rt, false);
        rig.submit(2, IoOp::Flush);
        rig.turns(200).await;
        rig.serve(0, 1, 2);
        assert!(rig.turns(200).await.is_empty());
        let forward = rig.nodes[0].pop_forward().expect("it goes to who owns the volume by now");
        assert!(forward.owner == node(1) && matches!(forward.op, IoOp::Flush));
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

pub fn an_answer_to_a_read_is_not_taken_for_one_to_the_change_that_follows() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[1, 2]);
        rig.seen.borrow_mut().plain = false;
        rig.held_up.insert(1);
        rig.submit(1, IoOp::Write { offset: 512, data: data(512, 512, 7) });
        rig.turns(50).await;
        // In another epoch the read is asked once more.
        rig.command(&targets(2, &[1, 2]));
        rig.command(&Command::Answer { mirror: 0, epoch: Epoch(2) });
        rig.turns(50).await;
        assert_eq!(rig.wires[&(0, 1)].len(), 2, "it was asked twice");
        for answers in 1..=2 {
            let Some(Wire::Ask(token, ask)) = rig.wires.get_mut(&(0, 1)).and_then(VecDeque::pop_front) else { panic!("a read") };
            rig.tokens += 1;
            rig.served.insert((1, rig.tokens), token);
            let tokens = rig.tokens;
            rig.nodes[1].serve_ask(rt, node(0), tokens, ask);
            rig.turns(50).await;
            assert_eq!(rig.wires[&(1, 0)].len(), answers);
        }
        // With the first answer the change begins: it has not come to node 1 when the second one is heard.
        for _ in 0..2 {
            let Some(Wire::Answer(token, answer)) = rig.wires.get_mut(&(1, 0)).and_then(VecDeque::pop_front) else { panic!("an answer") };
            rig.nodes[0].answered(rt, token, answer);
            assert!(rig.turns(100).await.is_empty(), "node 1 has not got it");
        }
        assert_eq!(rig.sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1, 2]);
        rig.held_up.clear();
        assert_eq!(rig.turns(400).await.len(), 1);
        rig.are_equal_of(&[1, 2]);
    });
}
