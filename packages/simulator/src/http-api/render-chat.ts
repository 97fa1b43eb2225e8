import { isJsonObject } from '../../../../src/core/json.ts'
import { hashText } from '../block-keys.ts'
import { special, TokenWriter } from '../tokenizer.ts'
import { badRequest } from './wire-error.ts'

/** A chat as tokens, with its multimodal items. */
interface RenderedChat {
  readonly tokens: Uint32Array
  /** Hash of each multimodal item's content. */
  readonly items: readonly number[]
}

interface TemplateOptions {
  readonly addGenerationPrompt: boolean
  readonly continueFinalMessage: boolean
  readonly tools: unknown
}

/** Number of tokens per image, audio or video. */
const ITEM_TOKENS = 64

const ITEM_TYPES = new Set([
  'image_url',
  'input_image',
  'image',
  'audio_url',
  'input_audio',
  'video_url',
  'input_video',
])

type Fields = Readonly<Record<string, unknown>>

/** ChatML, as most open models have it: `<|im_start|>role\ncontent<|im_end|>\n`. */
export function renderChat(messages: readonly unknown[], options: TemplateOptions): RenderedChat {
  const writer = new TokenWriter()
  const items: number[] = []
  messages.forEach((message, at) => {
    if (!isJsonObject(message) || typeof message['role'] !== 'string') {
      throw badRequest(`messages[${at}] needs a role`, 'messages')
    }
    if (at === 0 && message['role'] !== 'system') writeTools(writer, options.tools)
    openMessage(writer, message['role'])
    writeContent(writer, message, items)
    if (!(options.continueFinalMessage && at === messages.length - 1)) closeMessage(writer)
    if (at === 0 && message['role'] === 'system') writeTools(writer, options.tools)
  })
  if (options.addGenerationPrompt && !options.continueFinalMessage) openMessage(writer, 'assistant')
  return { tokens: writer.ids(), items }
}

/** Behind a leading system message, as in Qwen's templates. */
function writeTools(writer: TokenWriter, tools: unknown): void {
  if (!Array.isArray(tools) || tools.length === 0) return
  openMessage(writer, 'system')
  writer.text(`Tools:\n${JSON.stringify(tools)}`)
  closeMessage(writer)
}

function openMessage(writer: TokenWriter, role: string): void {
  writer.push(special.start)
  writer.text(`${role}\n`)
}

function closeMessage(writer: TokenWriter): void {
  writer.push(special.stop)
  writer.text('\n')
}

function writeContent(writer: TokenWriter, message: Fields, items: number[]): void {
  const content = message['content']
  if (typeof content === 'string') writer.text(content)
  else if (Array.isArray(content)) {
    content.forEach((part, at) => {
      if (at > 0) writer.text('\n')
      writePart(writer, part, items)
    })
  }
  if (Array.isArray(message['tool_calls'])) writer.text(JSON.stringify(message['tool_calls']))
}

function writePart(writer: TokenWriter, part: unknown, items: number[]): void {
  if (!isJsonObject(part)) return
  const { type } = part
  if (typeof part['text'] === 'string') writer.text(part['text'])
  else if (typeof type === 'string' && ITEM_TYPES.has(type)) {
    const hash = hashText(JSON.stringify(part[type] ?? part))
    items.push(hash)
    // Ids depend on the content: another image in the same place is another prompt.
    for (let at = 0; at < ITEM_TOKENS; at += 1) writer.push(0x1_0200 + ((hash + at) & 0xff_ffff))
  } else if (type === 'tool_result') writer.text(JSON.stringify(part['content'] ?? ''))
  else if (type === 'tool_use') writer.text(JSON.stringify({ name: part['name'], input: part['input'] }))
}
