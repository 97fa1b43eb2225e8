/** Reads agentic sessions of callanjfox/kv-cache-tester (Weka), which AgentX of InferenceX uses too. */
import { chainedKeys, numberIn, numbersIn, textIn } from './trace-fields.ts'
import { TraceError } from './trace-error.ts'
import type { Trace, TraceRequest } from './trace.ts'

type Fields = Readonly<Record<string, unknown>>

/** One session of a file. */
export interface WekaLine {
  readonly row: Fields
  readonly line: number
}

/** One agent's requests in a session: the main agent, or a subagent. */
interface Agent {
  readonly chain: string
  /** When a subagent started, seconds. 0: the main agent. */
  readonly startS: number
  readonly requests: readonly { readonly fields: Fields; readonly path: string }[]
}

interface Session {
  readonly line: number
  /** Ids of blocks are those of this session. */
  readonly scope: string
  readonly blockTokens: number
  readonly agents: readonly Agent[]
}

/**
 * Each session has `id`, `block_size` and `requests`; a request has `t` and optionally `think_time` and `api_time` in
 * seconds, `in`, `out` and `hash_ids`; one of type `subagent` has requests of its own, which run beside the main agent.
 * Throws a TraceError for an invalid session.
 */
export function wekaTrace(name: string, lines: readonly WekaLine[], limit: number): Trace {
  const sessions = lines.map(sessionOf)
  const blockTokens = sessions[0]?.blockTokens ?? 1
  const isRelative = sessions.some(hasRelativeTimes)
  const requests = sessions.flatMap((session) => {
    if (session.blockTokens !== blockTokens)
      throw new TraceError(
        session.line,
        `has block_size ${session.blockTokens}; must be ${blockTokens} as in the first`,
      )
    return session.agents.flatMap((agent) => requestsOf(agent, session, isRelative ? agent.startS : 0))
  })
  return { name, blockTokens, requests: requests.sort((one, other) => one.atMs - other.atMs).slice(0, limit) }
}

function sessionOf({ row, line }: WekaLine): Session {
  const id = textIn(row, 'id', { line })
  const blockTokens = numberIn(row, 'block_size', { line, min: 1 })
  const { hash_id_scope: scope = 'local' } = row
  if (scope !== 'local') throw new TraceError(line, `has hash_id_scope ${JSON.stringify(scope)}; must be "local"`)
  const all = listIn(row, { line, path: '' })
  const subagents = all.filter(isSubagent).map(({ fields, path }, at): Agent => {
    const place = { line, path: `${path}.` }
    const own = listIn(fields, place)
    if (own.some(isSubagent)) throw new TraceError(line, `has a subagent in ${path}; subagents must have none`)
    return { chain: `${id}:subagent-${at}`, startS: numberIn(fields, 't', place), requests: own }
  })
  const main = { chain: id, startS: 0, requests: all.filter((one) => !isSubagent(one)) }
  return { line, scope: id, blockTokens, agents: [main, ...subagents] }
}

const isSubagent = ({ fields }: Agent['requests'][number]): boolean => fields['type'] === 'subagent'

function listIn(fields: Fields, { line, path }: { readonly line: number; readonly path: string }): Agent['requests'] {
  const list = fields['requests']
  if (!Array.isArray(list)) throw new TraceError(line, `has no list \`${path}requests\``)
  return list.map((one: unknown, at) => {
    const own = `${path}requests[${at}]`
    if (typeof one !== 'object' || one === null) throw new TraceError(line, `has ${own} that is not an object`)
    return { fields: one as Fields, path: own }
  })
}

/** Files count the time of a subagent's requests from its start, or from the start of the session. */
function hasRelativeTimes({ line, agents }: Session): boolean {
  return agents.some(({ startS, requests }) =>
    requests.some(({ fields, path }) => numberIn(fields, 't', { line, path: `${path}.` }) < startS),
  )
}

function requestsOf({ chain, requests }: Agent, { line, scope, blockTokens }: Session, startS: number): TraceRequest[] {
  const read = requests.map(({ fields, path }) => {
    const place = { line, path: `${path}.` }
    const optional = (field: string) => (fields[field] == null ? null : numberIn(fields, field, place))
    const promptTokens = Math.max(1, Math.floor(numberIn(fields, 'in', place)))
    const ids = fields['hash_ids'] === undefined ? [] : numbersIn(fields, 'hash_ids', place)
    return {
      atS: startS + numberIn(fields, 't', place),
      apiS: optional('api_time') ?? 0,
      thinkS: optional('think_time'),
      promptTokens,
      outputTokens: Math.max(1, Math.floor(numberIn(fields, 'out', place))),
      blocks: chainedKeys(ids.slice(0, Math.floor(promptTokens / blockTokens)), scope),
    }
  })
  const sorted = read.sort((one, other) => one.atS - other.atS)
  return sorted.map(({ atS, thinkS, promptTokens, outputTokens, blocks }, at) => {
    const before = sorted[at - 1]
    const pauseS = before === undefined ? 0 : Math.max(0, atS - before.atS - before.apiS)
    return {
      atMs: 1_000 * atS,
      promptTokens,
      outputTokens,
      blocks,
      session: chain,
      chain,
      thinkMs: 1_000 * (thinkS ?? pauseS),
    }
  })
}
