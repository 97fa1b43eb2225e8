import { expect, it } from 'vitest'
import { AbortListeners } from '../src/abort-listeners.ts'

class Signal extends AbortListeners {
  abort(): void {
    this.callListeners()
  }
}

it('listeners of an own signal are called as those of an EventTarget', () => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
  ]) {
    const calls = [new Signal(), new AbortController()].map((signal) => {
      const target = signal instanceof Signal ? signal : signal.signal
      const called: number[] = []
      const listeners = [0, 1, 2].map((at) => (): void => {
        called.push(at)
        if (at === order[0]) target.removeEventListener('abort', listeners[order[1]!]!)
      })
      for (const at of order) target.addEventListener('abort', listeners[at]!)
      // Twice the same one counts once.
      target.addEventListener('abort', listeners[order[0]!]!)
      target.addEventListener('abort', listeners[order[2]!]!)
      signal.abort()
      return called
    })
    expect(calls[0]).toEqual(calls[1])
    expect(calls[0]).toEqual([order[0], order[2]])
  }
})

it('an own signal without listeners, or with removed ones, calls none', () => {
  const signal = new Signal()
  let called = 0
  const listener = (): void => void called++
  signal.abort()
  signal.addEventListener('abort', listener)
  signal.removeEventListener('abort', listener)
  signal.removeEventListener('abort', listener)
  signal.abort()
  expect(called).toBe(0)
})
