import { describe, expect, it } from 'vitest'
import { IdleTimer } from '../../src/origin/idle-timer.ts'
import { Patience, patientTimers } from '../../src/origin/patience.ts'
import { StageTimer } from '../../src/origin/stage-timer.ts'
import { defaultTimers } from '../../src/timers.ts'

it('an idle timer that wakes before the limit of silence sleeps again', async () => {
  // Listening starts at 0; the timer wakes at 2 ms, and again at 100 ms.
  const times = [0, 2, 100]
  let reads = 0
  await new Promise<void>((resolve) =>
    new IdleTimer({ now: () => times[reads++]!, timers: defaultTimers }, 5, resolve).listen(),
  )
  expect(reads).toBe(3)
})

it('stages of several attempts add up', () => {
  const timer = new StageTimer({ route: 1 })
  timer.add('route', 2)
  timer.addAll({ route: 4, connect: 8 })
  expect(timer.snapshot()).toEqual({ route: 7, connect: 8 })
})

describe('the patience with a limit that has passed', () => {
  it('the patience with a limit that has passed ends after a timer that was on time', () => {
    const patience = new Patience(1_000)
    expect(patience.extensionMs(2)).toBe(20)
    expect(patience.extensionMs(3)).toBe(0)
  })

  it('the patience with a limit that has passed lasts as long as the process was late, and on while it is late', () => {
    const patience = new Patience(1_000)
    expect(patience.extensionMs(400)).toBe(400)
    expect(patience.extensionMs(150)).toBe(150)
    expect(patience.extensionMs(99)).toBe(0)
  })

  it('the patience with a limit that has passed does not last longer than the limit itself', () => {
    const patience = new Patience(20_000)
    expect(patience.extensionMs(15_000)).toBe(15_000)
    expect(patience.extensionMs(15_000)).toBe(5_000)
    expect(patience.extensionMs(15_000)).toBe(0)
  })

  it('the patience with a short limit that has passed lasts at most 10 s', () => {
    const patience = new Patience(200)
    expect(patience.extensionMs(7_000)).toBe(7_000)
    expect(patience.extensionMs(7_000)).toBe(3_000)
    expect(patience.extensionMs(7_000)).toBe(0)
  })

  it('the patience with a limit that has passed has no extension on a platform that reads sockets before timers', () => {
    expect(new Patience(1_000, 0).extensionMs(99)).toBe(0)
    const late = new Patience(1_000, 0)
    expect(late.extensionMs(100)).toBe(100)
    expect(late.extensionMs(99)).toBe(0)
  })
})

it('a patient timer that was late waits on, and can be cancelled then', () => {
  let now = 0
  let due: (() => void) | null = null
  const waits: number[] = []
  const timers = {
    set(ms: number, ring: () => void) {
      waits.push(ms)
      due = ring
      return { cancel: () => void (due = null) }
    },
  }
  let fired = 0
  const timer = patientTimers(timers, () => now).set(1_000, () => fired++)
  now = 1_600
  due!()
  expect(waits).toEqual([1_000, 600])
  timer.cancel()
  expect(due).toBeNull()
  patientTimers(timers, () => now).set(1_000, () => fired++)
  for (now of [2_600, 2_620]) due!()
  expect(fired).toBe(1)
})
