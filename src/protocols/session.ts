/** The client's session, and the agent within it, from headers and body fields that real clients send. */
import type { ClientSession } from '../core/contract/client-session.ts'
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { isText, Utf8Text } from '../core/tokens/utf8-text.ts'

/** One place where a session id may be. `path`: members from the body down. */
export type SessionSource =
  | { readonly header: string }
  /** `read` gets the id out of the field's text. Absent: the text is the id. null of it: the field has none. */
  | { readonly path: readonly string[]; readonly read?: (text: string) => string | null }

type HeaderReader = (name: string) => string | null | undefined

/** Longer ids are shortened. */
const SESSION_CHARS = 512
/** Longer texts of a body are not searched for an id. */
const SEARCHED_CHARS = 4096
/** Characters that change a line of a log or its direction: controls, formats, lone surrogates, separators of lines. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
/** Nearly all ids: nothing to shorten, trim or replace. */
const PLAIN_ID = /^[!-~]{1,512}$/

/**
 * Headers of clients, in order: OpenCode and gateways (`x-session-*`), Claude Code, Codex (`session-id`; `session_id`
 * before 2026), Dynamo, Open WebUI. Codex also sends `x-client-request-id`, which is another one per request in other
 * clients.
 */
const HEADERS = [
  'x-session-id',
  'x-session-affinity',
  'x-claude-code-session-id',
  'session-id',
  'session_id',
  'thread-id',
  'x-dynamo-session-id',
  'x-openwebui-chat-id',
] as const

const AGENT_HEADERS = ['x-claude-code-agent-id', 'x-openai-subagent'] as const
const PARENT_HEADERS = [
  'x-claude-code-parent-agent-id',
  'x-parent-session-id',
  'x-codex-parent-thread-id',
  'x-dynamo-parent-session-id',
] as const

export const sessionHeaders: readonly SessionSource[] = HEADERS.map((header) => ({ header }))

/** Names of a configuration as sources: headers, and paths of members of the body such as `metadata.chat_id`. */
export const configuredSources = (headers: readonly string[], paths: readonly string[]): readonly SessionSource[] => [
  ...headers.map((header) => ({ header })),
  ...paths.map((path) => ({ path: path.split('.') })),
]

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

/** The session of a request. null: no source has one. */
export function sessionOf(
  headerOf: HeaderReader,
  body: JsonObject,
  sources: readonly SessionSource[],
): ClientSession | null {
  for (const source of sources) {
    const id = 'header' in source ? cleaned(headerOf(source.header)) : inBody(body, source)
    if (id === null) continue
    return namedSession(id, 'header' in source ? `header ${source.header}` : `body ${source.path.join('.')}`, headerOf)
  }
  return null
}

/** A session whose id is known, with the agent and the parent that the headers name. */
export const namedSession = (id: string, source: string, headerOf: HeaderReader): ClientSession => ({
  id,
  source,
  agent: firstOf(headerOf, AGENT_HEADERS),
  parent: firstOf(headerOf, PARENT_HEADERS),
})

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
  const isLong = (value instanceof Utf8Text ? value.utf8.length : value.length) > SEARCHED_CHARS
  // A search of a long text would delay other requests.
  if (read !== undefined) return isLong ? null : cleaned(read(String(value)))
  return cleaned(String(value))
}

/** An id of bounded length without characters that a log cannot show. null: nothing is left. */
export function cleaned(value: string | null | undefined): string | null {
  if (value === null || value === undefined) return null
  if (PLAIN_ID.test(value)) return value
  const text = value.slice(0, SEARCHED_CHARS).trim().slice(0, SESSION_CHARS).replace(UNPRINTABLE, '\ufffd')
  return text === '' ? null : text
}
