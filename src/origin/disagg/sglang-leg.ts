/** SGLang's split requests: both engines get the request at once, and meet in a room of the prefill engine. */
import { rankNumberOf } from '../../core/contract/rank-id.ts'
import { bootstrapFields, prefillRankField } from '../../engines/sglang-bootstrap.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import { hostOf } from '../../url.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { serverOf } from '../rank-targets.ts'
import { bodyAt, type LegResult, wholeAnswer } from './final-leg.ts'

/** Rooms are numbers that JSON carries exactly. */
const ROOMS = 2 ** 53

/** Returns why a request cannot be split. null: it can. */
export const unsplittableBySglang = ({ asCompletion }: Protocol): string | null =>
  asCompletion === null ? 'sglang splits chats and completions only' : null

/** The two legs. Values of clients under the same names are replaced. */
export function sglangLeg(attempt: AttemptContext, prefill: EngineTarget): LegResult {
  const { exchange, ports, placed } = attempt
  const { engine, route } = placed
  const { bootstrapPort, bootstrapPorts } = route.pool.split.sglang
  const server = serverOf(prefill)
  const fields = bootstrapFields({
    host: hostOf(server.url),
    port: bootstrapPorts[server.id] ?? bootstrapPort,
    room: Math.floor(ports.random() * ROOMS),
  })
  const rank = server === prefill ? null : rankNumberOf(prefill.id)
  const whole = wholeAnswer(exchange)
  return {
    finalLeg: {
      target: engine,
      path: exchange.path,
      body: bodyAt(attempt, engine, {
        set: rank === null ? fields : { ...fields, ...prefillRankField(rank) },
        remove: [],
      }),
      notes: [],
      transform: null,
      holder: prefill,
      beside: {
        target: prefill,
        body: bodyAt(attempt, prefill, { set: { ...fields, ...whole.set }, remove: whole.remove }),
      },
    },
  }
}
