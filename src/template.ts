/** Chat templates: the model's own Jinja text, rendered the way vLLM renders it. */
import type { ChatMessage, ChatPrompt } from './core/tokens/chat.ts'
import type { ChatTemplate } from './core/tokens/measure.ts'
import { jinja } from './jinja.ts'

/** Throws an Error that quotes the parser when the text is no template. */
export function compileTemplate(text: string, specials: Readonly<Record<string, string>>, now: () => number = Date.now): ChatTemplate {
  const render = jinja(text, now)
  const shape: MessageShape = { listed: wantsParts(text), developer: /\bdeveloper\b/.test(text) }
  return (chat) => {
    const rendered = render({
      ...specials,
      messages: chat.messages.map((message) => shaped(message, shape)),
      tools: chat.tools,
      ...chat.variables,
    })
    return chat.variables['continue_final_message'] === true ? cutAfterLast(rendered, chat) : rendered
  }
}

interface MessageShape {
  /** Content as a list of parts instead of one string. */
  readonly listed: boolean
  /** The template knows the role `developer`; engines give it to others as `system`. */
  readonly developer: boolean
}

/**
 * Templates that walk through a message's content want it as parts. vLLM finds out from the syntax tree
 * (`_detect_content_format`); the loops in use are all written like one of these.
 */
function wantsParts(text: string): boolean {
  return /\bfor\s+\w+\s+in\s+(?:\w+\.content|\w+(?:\[[^\]]*\])?\[\s*['"]content['"]\s*\]|content)\b(?!\s*\.)/.test(text)
}

function shaped({ role, parts, extra }: ChatMessage, { listed, developer }: MessageShape): Record<string, unknown> {
  const content = listed ? parts.map((text) => ({ type: 'text', text: String(text) })) : parts.join('\n')
  return { role: role === 'developer' && !developer ? 'system' : role, content, ...extra }
}

/** `continue_final_message`: the prompt ends with the last message's text, as in transformers' `apply_chat_template`. */
function cutAfterLast(rendered: string, chat: ChatPrompt): string {
  const last = String(chat.messages.at(-1)?.parts.at(-1) ?? '')
  const at = rendered.lastIndexOf(last.trim())
  if (at < 0) throw new Error('the template does not print the message to be continued')
  const spaced = last.trimStart()
  return rendered.slice(0, at + (rendered.startsWith(spaced, at) ? spaced.length : last.trim().length))
}
