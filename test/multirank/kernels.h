// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The conformance programs: each runs on every rank of a world of any kind and raises when a
// value is wrong.
#pragma once

#include "test/multirank/harness.h"

namespace tilery::test {

/// A consumer that begins long before its producer: a wait that returns early fails.
void lateProducer(World &world);
/// Data of put_signal, put + notify, and remote stores + notify is there when the signal is.
void signalAfterData(World &world);
/// 1000 device barriers in one launch, each checked, then 100 launches of one.
void barrierReuse(World &world);
/// 8 instances a rank, each in a ring over all ranks with its own signals.
void ringOfInstances(World &world);
/// A token that goes round 100 times.
void ring(World &world);
/// Two instances poll a lock word; barrier by fetch-add.
void pollingLoops(World &world);
/// get of what the peer wrote, own remote loads see own remote stores.
void remoteLoads(World &world);
/// All-gather, barrier, host signals, put and get by the host.
void hostOperations(World &world);
/// Two operations back to back on fresh buffers, without host synchronisation (case 20).
void backToBack(World &world);
/// All of these but the polling and the barrier programs inside teams (teams.cpp).
void teams(World &world);

} // namespace tilery::test
