import { describe, expect, it } from 'vitest'
import { span, stored } from './events.ts'
import { catchUp, Engine, receive, heldBy, listenerOf, open } from './stream-engine.ts'

describe('EventStream', () => {
  it('knows all of an engine that is as young as itself', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    expect(stream.isComplete).toBe(true)
    receive(stream, engine, engine.store(1))
    expect([stream.isComplete, stream.log.size]).toEqual([true, 1])
  })

  it('learns the past of an engine that kept all of it', () => {
    const [stream, engine] = [open(), new Engine()]
    for (let number = 0; number < 5; number++) engine.store(number)
    engine.evict(2)
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size]).toEqual([true, 4])
  })

  it('learns the past after all when nobody could be asked for it at first', () => {
    const [stream, engine] = [open(), new Engine()]
    for (let number = 0; number < 5; number++) engine.store(number)
    stream.unreplayed(engine.store(5))
    expect([stream.isComplete, stream.log.size]).toEqual([false, 1])
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 6, 0])
  })

  it('knows that there is more where an engine has forgotten how it began', () => {
    const [stream, engine] = [open(), new Engine(3)]
    for (let number = 0; number < 5; number++) engine.store(number)
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.losses]).toEqual([false, 3, 1])
  })

  it('knows all again when everything was cleared', () => {
    const [stream, engine] = [open(), new Engine(3)]
    for (let number = 0; number < 5; number++) engine.store(number)
    catchUp(stream, engine)
    receive(stream, engine, engine.clear())
    expect([stream.isComplete, stream.log.size]).toEqual([true, 0])
  })

  it('fills a gap from the replay, and takes nothing twice', () => {
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

  it('gives up its picture when a gap is older than what the engine keeps', () => {
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

  it('begins anew when the engine does, as soon as it says anything', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2, 3]) receive(stream, engine, engine.store(number))
    engine.restart()
    receive(stream, engine, engine.store(4))
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 1, 1])
  })

  it('sees by its own asking that the engine began anew and says nothing', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2, 3]) receive(stream, engine, engine.store(number))
    engine.restart()
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 0, 1])
  })

  it('is not taken in by a new life that has come as far as the old one', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2]) receive(stream, engine, engine.store(number))
    engine.restart()
    for (const number of [7, 8, 9]) engine.store(number)
    catchUp(stream, engine)
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 3, 1])
  })

  it('does not take the next number for the next batch while it is in doubt', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    engine.restart()
    stream.doubt()
    engine.store(2)
    receive(stream, engine, engine.store(3))
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 2, 1])
  })

  it('learns anew how large the blocks of an engine are that began anew', () => {
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

  it('does not take what an old life left in a socket for the first of the new one', () => {
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

  it('asks whether it is another life while in doubt, though the engine’s clock was set back', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    for (const number of [1, 2, 3]) receive(stream, engine, engine.store(number))
    engine.restart()
    engine.clockS = 10
    stream.doubt()
    receive(stream, engine, engine.store(4))
    expect([stream.isComplete, stream.log.size, stream.counts.restarts]).toEqual([true, 1, 1])
  })

  it('finds what was published last and never came', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    engine.store(2)
    catchUp(stream, engine)
    expect(stream.log.size).toBe(2)
  })

  it('gives up its picture for bytes nobody can read, and goes on', () => {
    const [stream, engine] = [open(), new Engine()]
    catchUp(stream, engine)
    receive(stream, engine, engine.store(1))
    receive(stream, engine, { ...engine.store(2), payload: Uint8Array.of(0xc1) })
    expect([stream.isComplete, stream.log.size, stream.counts.losses]).toEqual([false, 0, 1])
    receive(stream, engine, engine.store(3))
    expect(stream.log.size).toBeGreaterThan(0)
  })

  it('without a replay socket knows all only from an engine’s first batch on', () => {
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
