import { ClusterObject } from '../../durable/cluster.ts'

/** A day ahead, so that no alarm goes off by itself; it moves only when a test moves it. */
let nowMs = Date.now() + 86_400_000

/** The clock of every ClusterObject in the tests. The object's class is the tests' own: they share an isolate. */
export const clock = {
  now: () => nowMs,
  advance(ms: number) {
    nowMs += ms
  },
}

let nextDraw: number | null = null

/** Random draws of every ClusterObject in the tests. null: Math.random. */
export const draws = {
  set(value: number | null) {
    nextDraw = value
  },
}

Object.defineProperty(ClusterObject.prototype, 'now', { value: clock.now })
Object.defineProperty(ClusterObject.prototype, 'random', { value: () => nextDraw ?? Math.random() })
