import { describe, expect, it, vi } from 'vitest'
import { stalledMs, WheelTimer } from '../../../src/platform/node/wheel-timer.ts'

/** Resolves no earlier than `delayMs`; timers of one process fire in the order of their times. */
const after = (delayMs: number): Promise<void> => new Promise((resolve) => new WheelTimer(resolve).set(delayMs))

describe('a deadline', () => {
  it('in the past fires at once, without the warning of Node about negative delays', async () => {
    const timer = vi.spyOn(globalThis, 'setTimeout')
    await after(-5)
    const delays = timer.mock.calls.map(([, delayMs]) => delayMs)
    timer.mockRestore()
    expect(delays.length).toBeGreaterThan(0)
    expect(delays.filter((delayMs) => Number(delayMs) < 0)).toEqual([])
  })

  it('a deadline fires once and never early, however often it was moved', async () => {
    const delaysMs = [0, 0.4, 1, 3.7, 12, 25]
    for (const firstMs of delaysMs) {
      for (const thenMs of delaysMs) {
        let fired = 0
        let dueAt = 0
        await new Promise<void>((resolve) => {
          const deadline = new WheelTimer(() => {
            fired++
            expect(performance.now()).toBeGreaterThanOrEqual(dueAt)
            resolve()
          })
          deadline.set(firstMs)
          dueAt = performance.now() + thenMs
          deadline.set(thenMs)
        })
        expect(fired).toBe(1)
      }
    }
    await after(30)
  })

  it('a deadline that is moved earlier fires before those behind it', async () => {
    const order: string[] = []
    const moved = new WheelTimer(() => order.push('moved'))
    moved.set(60_000)
    const last = new Promise<void>((resolve) => {
      new WheelTimer(() => {
        order.push('last')
        resolve()
      }).set(40)
    })
    moved.set(5)
    await last
    expect(order).toEqual(['moved', 'last'])
  })

  it('a deadline that was cancelled does not fire, and can be set again', async () => {
    let fired = 0
    const deadline = new WheelTimer(() => fired++)
    deadline.set(1)
    deadline.cancel()
    deadline.cancel()
    await after(20)
    expect(fired).toBe(0)
    deadline.set(1)
    await after(20)
    expect(fired).toBe(1)
  })

  it('a deadline may set itself, and cancel others, when it fires', async () => {
    let fired = 0
    const other = new WheelTimer(() => (fired = -100))
    await new Promise<void>((resolve) => {
      const deadline = new WheelTimer(() => {
        other.cancel()
        if (++fired === 3) resolve()
        else deadline.set(1)
      })
      deadline.set(1)
      other.set(200)
    })
    await after(1)
    expect(fired).toBe(3)
  })

  it('a deadline waits longer than a timer of Node can', async () => {
    let fired = 0
    const deadlines = [2 ** 31, Infinity].map((delayMs) => {
      const deadline = new WheelTimer(() => fired++)
      deadline.set(delayMs)
      return deadline
    })
    await after(20)
    expect(fired).toBe(0)
    for (const deadline of deadlines) deadline.cancel()
  })
})

it('a deadline counts the time in which the event loop did not run while it waited', async () => {
  const before = stalledMs()
  const fired = after(5)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  await fired
  expect(stalledMs() - before).toBeGreaterThan(150)
})
