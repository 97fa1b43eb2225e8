import { ClusterObject } from '../../durable/cluster-object.ts'

/** One day ahead, so that no alarm fires by itself; only a test advances it. */
let nowMs = Date.now() + 86_400_000

/** The clock of every ClusterObject in the tests. Tests have their own subclass, because they share an isolate. */
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
