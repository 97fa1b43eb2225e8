import { describe, expect, it } from 'vitest'
import { span, stored } from './events.ts'
import { catchUp, Engine, receive, heldBy, listenerOf, open } from './stream-engine.ts'

describe('EventStream', () => {
  it('EventStream is complete for an engine that has published nothing yet', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    expect(stream.isComplete).toBe(true)
    receive(stream, engine, engine.store(1))
    expect([stream.isComplete, stream.log.size]).toEqual([true, 1])
  })

  it.each([
    [0, [true, 1, null]],
    [1, [false, 0, 0]],
  ])('EventStream of rank %i takes only its own batches, those of rank 0 being published', (rank, expected) => {
    const [stream, engine] = [open(true, rank), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.otherRank]).toEqual(expected)
  })

  it('replays all past batches if the engine kept them', () => {
    const [stream, engine] = [open(), new Engine()]
    for (let number = 0; number < 5; number++) engine.store(number)
    engine.evict(2)
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size]).toEqual([true, 4])
  })

  it('replays past batches later if the first replay was not possible', () => {
    const [stream, engine] = [open(), new Engine()]
    for (let number = 0; number < 5; number++) engine.store(number)
    stream.replayFailed(engine.store(5))
    expect([stream.isComplete, stream.log.size]).toEqual([false, 1])
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 6, 0])
  })

  it('EventStream is incomplete if the engine no longer has its first batches', () => {
    const [stream, engine] = [open(), new Engine(3)]
    for (let number = 0; number < 5; number++) engine.store(number)
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.losses]).toEqual([false, 3, 1])
  })

  it('EventStream is complete again after a clear event', () => {
    const [stream, engine] = [open(), new Engine(3)]
    for (let number = 0; number < 5; number++) engine.store(number)
    catchUp(stream, engine)
    receive(stream, engine, engine.clear())
    expect([stream.isComplete, stream.log.size]).toEqual([true, 0])
  })

  it('EventStream fills a gap from the replay and applies no batch twice', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    const late = [engine.store(2), engine.store(3)]
    receive(stream, engine, engine.store(4))
    for (const batch of late) receive(stream, engine, batch)
    expect([stream.isComplete, stream.log.size, stream.counts]).toEqual([
      true,
      4,
      expect.objectContaining({ gaps: 1, losses: 0, batches: 4 }),
    ])
  })

  it('EventStream is incomplete if a gap is older than the engine’s replay buffer', () => {
    const [stream, engine] = [open(), new Engine(2)]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    for (const number of [2, 3, 4]) engine.store(number)
    receive(stream, engine, engine.store(5))
    expect([stream.isComplete, stream.log.size, stream.counts]).toEqual([
      false,
      2,
      expect.objectContaining({ gaps: 1, losses: 1, restarts: 0 }),
    ])
  })

  it('starts over at the first batch after an engine restart', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2, 3]) receive(stream, engine, engine.store(number))
    engine.restart()
    receive(stream, engine, engine.store(4))
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 1, 1])
  })

  it('EventStream detects at the next replay a restart after which nothing was published', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2, 3]) receive(stream, engine, engine.store(number))
    engine.restart()
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 0, 1])
  })

  it('EventStream detects a restart although the new sequence has passed the old one', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2]) receive(stream, engine, engine.store(number))
    engine.restart()
    for (const number of [7, 8, 9]) engine.store(number)
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 3, 1])
  })

  it('EventStream does not accept the next number as the next batch while a restart is suspected', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    engine.restart()
    stream.connectionLost()
    engine.store(2)
    receive(stream, engine, engine.store(3))
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 2, 1])
  })

  it('EventStream reads the block size again after an engine restart', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    engine.restart()
    receive(stream, engine, engine.publish([stored({ prompt: span(0, 16), blockTokens: 2 })]))
    expect([stream.engineBlockTokens, stream.isComplete, stream.unnamedBlocks, stream.log.size]).toEqual([
      2,
      true,
      0,
      4,
    ])
    engine.restart()
    receive(stream, engine, engine.publish([stored({ prompt: span(0, 16), blockTokens: 8 })]))
    expect([stream.engineBlockTokens, stream.fits, stream.isComplete, stream.log.size]).toEqual([8, false, false, 0])
  })

  it('EventStream ignores a batch from before a restart that was still in the socket', () => {
    const [stream, engine] = [open(), new Engine()]
    const left = engine.store(1)
    catchUp(stream, engine)
    engine.restart()
    catchUp(stream, engine)
    engine.store(2)
    receive(stream, engine, left)
    receive(stream, engine, engine.store(3))
    expect([stream.isComplete, heldBy(stream)]).toEqual([true, heldBy(listenerOf([2, 3]))])
  })

  it('EventStream detects a suspected restart even if the engine’s clock was set back', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2, 3]) receive(stream, engine, engine.store(number))
    engine.restart()
    engine.clockS = 10
    stream.connectionLost()
    receive(stream, engine, engine.store(4))
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 1, 1])
  })

  it('replays the last batch if it was published but never received', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    engine.store(2)
    catchUp(stream, engine)
    expect(stream.log.size).toBe(2)
  })

  it('EventStream is incomplete after a batch that cannot be decoded, and continues', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    receive(stream, engine, { ...engine.store(2), payload: Uint8Array.of(0xc1) })
    expect([stream.isComplete, stream.log.size, stream.counts.losses]).toEqual([false, 0, 1])
    receive(stream, engine, engine.store(3))
    expect(stream.log.size).toBeGreaterThan(0)
  })

  it('EventStream without a replay socket is complete only from the engine’s first batch on', () => {
    const [early, late, engine] = [open(false), open(false), new Engine()]
    expect(early.isComplete).toBe(false)
    const first = engine.store(1)
    early.published(first)
    const second = engine.store(2)
    for (const stream of [early, late]) stream.published(second)
    expect([early.isComplete, late.isComplete]).toEqual([true, false])
    engine.store(3)
    early.published(engine.store(4))
    expect([early.isComplete, early.counts]).toEqual([false, expect.objectContaining({ gaps: 1, losses: 1 })])
  })
})
