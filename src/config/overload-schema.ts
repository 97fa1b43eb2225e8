/** Schema of admission control under overload. */
import * as z from 'zod/mini'
import { describe, int, milliseconds, number, oneOf, strict, withDefault } from './fields.ts'

const slo = strict({
  ttft_ms: describe(
    'Time to the first token. A request is refused if waiting would make it later; never because its prompt is long.',
    z.optional(milliseconds()),
  ),
  ttft_ms_per_1k_tokens: describe('Added to `ttft_ms` for each 1,000 prompt tokens.', z.optional(number(0, 3_600_000))),
  itl_ms: describe(
    'Mean time between two tokens of a response. A request is refused if the time between tokens of ' +
      'the streams on its engine would exceed this.',
    z.optional(milliseconds()),
  ),
})

const queue = strict({
  max_requests: describe(
    'Maximum number of waiting requests. Further ones are refused.',
    withDefault(int(1, 10_000), 256),
  ),
  max_wait_ms: describe(
    'Maximum wait for room. After it, the request is refused. Requests wait as long for a pool that is paused.',
    withDefault(int(1, 10_000), 2_000),
  ),
  no_engine_wait_ms: describe(
    'Maximum wait while no engine can serve: none is there yet, or all are unhealthy, asleep or paused ' +
      '(docs/overload.md#waiting-for-engines). 0: such requests are refused at once, except while the pool is ' +
      'paused.',
    withDefault(int(0, 3_600_000), 0),
  ),
})

const sleep = strict({
  idle_s: describe('Time without requests after which an engine is put to sleep, seconds.', int(1, 604_800)),
  min_awake: describe('Number of engines that stay awake.', withDefault(int(0, 10_000), 1)),
})

export const overloadShape = {
  slo: describe(
    'Latency objectives for admission control under overload (docs/overload.md). Absent: requests are not refused ' +
      'for their latency.',
    z.optional(slo),
  ),
  max_waiting: describe(
    'Maximum number of requests that wait for their first token, per engine. Further requests are refused.',
    withDefault(int(1, 1_000_000), 1_000),
  ),
  queue: describe(
    'Requests that would be refused for a lack of room wait for it (docs/overload.md). Absent: they are refused at ' +
      'once.',
    z.optional(queue),
  ),
  wake: describe(
    '`on_demand`: a request that waits wakes an engine that sleeps (vLLM in development mode with ' +
      '`--enable-sleep-mode`; docs/overload.md#engines-that-sleep). It needs `queue.no_engine_wait_ms`.',
    withDefault(oneOf(['off', 'on_demand']), 'off'),
  ),
  sleep: describe('Node only: idle engines are put to sleep. It needs `wake: on_demand`.', z.optional(sleep)),
  class_priority: describe(
    'The engines schedule by priority (vLLM with `--scheduling-policy priority`): requests of the class `critical` ' +
      'get `priority: -1` and those of `sheddable` 1, unless the request or its key has a priority of its own.',
    withDefault(z.boolean(), false),
  ),
}
