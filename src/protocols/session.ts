/** The client's session, and the agent within it, from headers and body fields that real clients send. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { isText } from '../core/tokens/utf8-text.ts'

/** One place where a session id may be. `path`: members from the body down. */
export type SessionSource =
  | { readonly header: string }
  /** `read` gets the id out of the field's text. Absent: the text is the id. null of it: the field has none. */
  | { readonly path: readonly string[]; readonly read?: (text: string) => string | null }

/** A session id is the client's word: use it within one key only. */
interface ClientSession {
  readonly id: string
  /** Place of the id, such as `header x-session-id` or `body metadata.user_id`. */
  readonly source: string
  /** Agent within the session (a subagent). null: not named. */
  readonly agent: string | null
  /** Session or agent that started this one. null: not named. */
  readonly parent: string | null
}

type HeaderReader = (name: string) => string | null | undefined

const SESSION_CHARS = 512

/**
 * Headers of clients, in order: OpenCode and gateways (`x-session-*`), Claude Code, Codex (`session-id`; `session_id`
 * before 2026), Dynamo. Codex also sends `x-client-request-id`, which is another one per request in other clients.
 */
const HEADERS = [
  'x-session-id',
  'x-session-affinity',
  'x-claude-code-session-id',
  'session-id',
  'session_id',
  'thread-id',
  'x-dynamo-session-id',
] as const

const AGENT_HEADERS = ['x-claude-code-agent-id', 'x-openai-subagent'] as const
const PARENT_HEADERS = [
  'x-claude-code-parent-agent-id',
  'x-parent-session-id',
  'x-codex-parent-thread-id',
  'x-dynamo-parent-session-id',
] as const

export const sessionHeaders: readonly SessionSource[] = HEADERS.map((header) => ({ header }))

/** Body fields of OpenAI's protocols. `user` is the last resort: it may be shared by conversations. */
export const openaiSessionFields: readonly SessionSource[] = [
  { path: ['prompt_cache_key'] },
  { path: ['client_metadata', 'session_id'] },
  { path: ['metadata', 'session_id'] },
  { path: ['nvext', 'agent_context', 'session_id'] },
  { path: ['user'] },
]

/** Body fields of Anthropic's Messages. */
export const messagesSessionFields: readonly SessionSource[] = [
  { path: ['metadata', 'user_id'], read: sessionInUserId },
  ...openaiSessionFields,
  { path: ['metadata', 'user_id'] },
]

/**
 * Session in Claude Code's `metadata.user_id`: JSON text with `session_id`; before 2026 `user_…_account_…_session_ID`.
 */
function sessionInUserId(text: string): string | null {
  const old = /_session_([\w-]+)$/.exec(text)
  if (old !== null) return old[1]!
  try {
    const json: unknown = JSON.parse(text)
    const id = isJsonObject(json) ? json['session_id'] : null
    return typeof id === 'string' ? id : null
  } catch {
    return null
  }
}

/**
 * The session of a request. null: it names none.
 * @param sources configured sources, then those of the protocol
 * @testing
 */
export function sessionOf(
  headerOf: HeaderReader,
  body: JsonObject,
  sources: readonly SessionSource[],
): ClientSession | null {
  for (const source of sources) {
    const id = 'header' in source ? cleaned(headerOf(source.header)) : inBody(body, source)
    if (id === null) continue
    const name = 'header' in source ? `header ${source.header}` : `body ${source.path.join('.')}`
    return { id, source: name, agent: firstOf(headerOf, AGENT_HEADERS), parent: firstOf(headerOf, PARENT_HEADERS) }
  }
  return null
}

function firstOf(headerOf: HeaderReader, names: readonly string[]): string | null {
  for (const name of names) {
    const value = cleaned(headerOf(name))
    if (value !== null) return value
  }
  return null
}

function inBody(body: JsonObject, { path, read }: Extract<SessionSource, { path: unknown }>): string | null {
  let value: unknown = body
  for (const name of path) value = isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  if (typeof value === 'number') return String(value)
  if (!isText(value)) return null
  const text = String(value)
  return cleaned(read === undefined ? text : read(text))
}

function cleaned(value: string | null | undefined): string | null {
  const text = (value ?? '').trim()
  return text === '' ? null : text.slice(0, SESSION_CHARS)
}
