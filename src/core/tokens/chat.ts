/** A chat as the engine's template gets it. */
import type { Text } from './utf8-text.ts'

/** One message as templates get it. */
export interface ChatMessage {
  readonly role: string
  /** Texts of the parts in order; other parts are markers with a hash of their content. */
  readonly parts: readonly Text[]
  /**
   * Fields besides role and content that templates read. `tool_calls` is a list; its arguments are mostly JSON text.
   */
  readonly extra: Readonly<Record<string, unknown>>
}

export interface ChatPrompt {
  readonly form: 'chat'
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly unknown[] | null
  /** Variables for the template: `add_generation_prompt`, `documents`, `chat_template_kwargs`, … */
  readonly variables: Readonly<Record<string, unknown>>
  /** The request has its own template, so the pool's does not apply. */
  readonly ownTemplate: boolean
  /** The engine adds its start tokens. Templates usually print them, so the default is false. */
  readonly addSpecial: boolean
  /** Images, audio and other parts that are not text. */
  readonly items: number
  /** Marker of the first of them. Absent: there is none. */
  readonly firstItem?: string
}
