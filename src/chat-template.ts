/** Chat templates: the model's Jinja text, rendered as in vLLM. */
import { piecesLeft } from './core/json-complexity.ts'
import { isJsonObject } from './core/json.ts'
import type { ChatMessage, ChatPrompt } from './core/tokens/chat.ts'
import type { ChatTemplate } from './core/tokens/prompt-analyzer.ts'
import { compileJinja } from './jinja.ts'

/** Throws an Error with the parser's message if the text is no template. */
export function compileTemplate(
  text: string,
  specials: Readonly<Record<string, string>>,
  now: () => number = Date.now,
): ChatTemplate {
  const render = compileJinja(text, now)
  const shape: MessageShape = { listed: wantsParts(text), developer: /\bdeveloper\b/.test(text) }
  return (chat) => {
    if (chat.messages.reduce((sum, { parts }) => sum + Math.max(1, parts.length), 0) > MAX_PARTS)
      throw new Error(`it has more than ${MAX_PARTS} messages or parts of messages`)
    const readCall = toolCallReader()
    const rendered = render({
      ...specials,
      messages: chat.messages.map((message) => templateMessage(message, shape, readCall)),
      tools: chat.tools,
      ...chat.variables,
    })
    return chat.variables['continue_final_message'] === true ? truncateAfterLast(rendered, chat) : rendered
  }
}

/** The interpreter takes up to 65 us for each: ten thousand parts of one letter delayed other requests by 0.7 s. */
const MAX_PARTS = 4096

/** Limit of the arguments of all calls in one chat. */
const MAX_ARGUMENT_CHARS = 1024 * 1024

/**
 * Limit of their JSON pieces. As values of a template each costs five times as much as its parsing; this many take
 * 0.05 s.
 */
const MAX_ARGUMENT_PIECES = 100_000

export const utf8 = new TextEncoder()

interface MessageShape {
  /** Content is a list of parts instead of one string. */
  readonly listed: boolean
  /** The template knows the role `developer`. For other templates engines rename it to `system`. */
  readonly developer: boolean
}

/**
 * Whether the template loops over the parts of a message's content. vLLM detects it from the syntax tree
 * (`_detect_content_format`); the loops in use all have one of these forms.
 */
function wantsParts(text: string): boolean {
  return /\bfor\s+\w+\s+in\s+(?:\w+\.content|\w+(?:\[[^\]]*\])?\[\s*['"]content['"]\s*\]|content)\b(?!\s*\.)/.test(text)
}

function templateMessage(
  { role, parts, extra }: ChatMessage,
  { listed, developer }: MessageShape,
  readCall: (call: unknown) => unknown,
): Record<string, unknown> {
  const content = listed ? parts.map((text) => ({ type: 'text', text: String(text) })) : parts.join('\n')
  const { tool_calls: calls, ...rest } = extra
  return {
    role: role === 'developer' && !developer ? 'system' : role,
    content,
    ...rest,
    ...(Array.isArray(calls) && { tool_calls: calls.map(readCall) }),
  }
}

/**
 * Templates expect arguments as an object; on the wire they are JSON text. Throws if all arguments of a chat together
 * are too long.
 */
function toolCallReader(): (call: unknown) => unknown {
  let left = MAX_ARGUMENT_CHARS
  let pieces = MAX_ARGUMENT_PIECES
  return (call) => {
    if (!isJsonObject(call) || !isJsonObject(call['function'])) return call
    let args: unknown = call['function']['arguments'] ?? ''
    if (typeof args === 'string') {
      left -= args.length
      if (left >= 0) pieces = piecesLeft(utf8.encode(args), pieces)
      if (left < 0 || pieces < 0)
        throw new Error('the arguments of its tool calls are more than 1 MB or 100,000 pieces')
      args = parsedOrText(args || '{}')
    }
    return { ...call, function: { ...call['function'], arguments: args } }
  }
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Characters that a template may add after the last message. */
const MAX_CHARS_AFTER_LAST = 64

/**
 * `continue_final_message`: the prompt ends with the last message's text, as in transformers' `apply_chat_template`.
 * Only the end is searched, because a search through a repetitive text takes minutes.
 */
function truncateAfterLast(rendered: string, chat: ChatPrompt): string {
  const last = String(chat.messages.at(-1)?.parts.at(-1) ?? '')
  const text = last.trim()
  for (let end = rendered.length; end >= rendered.length - MAX_CHARS_AFTER_LAST && end >= text.length; end--) {
    if (!rendered.endsWith(text, end)) continue
    const spaced = last.trimStart()
    return rendered.slice(0, rendered.startsWith(spaced, end - text.length) ? end - text.length + spaced.length : end)
  }
  throw new Error('the message to continue is not at the end')
}
