import type { Body } from './body-fields.ts'
import { badRequest, type Finding, invalidBody, missing } from './wire-error.ts'

const roleTypes = ['Developer', 'System', 'User', 'Assistant', 'Tool', 'Function'] as const

/** Reads the messages of a chat with vLLM's validation. Any role is accepted. */
export function readMessages(body: Body): readonly Body[] {
  const { messages } = body
  if (messages === undefined) throw missing('messages', body)
  if (!Array.isArray(messages)) {
    throw invalidBody({
      type: 'list_type',
      loc: 'body.messages',
      message: 'Input should be a valid list',
      input: messages,
    })
  }
  if (messages.length === 0) {
    throw badRequest('Cannot apply chat template to an empty conversation. Provide at least one message.')
  }
  messages.forEach((message: unknown, at) => checkRole(message, at))
  return messages as Body[]
}

/** pydantic tries every kind of message and reports an error for each. */
function checkRole(message: unknown, at: number): void {
  if (typeof message === 'object' && message !== null && typeof (message as Body)['role'] === 'string') return
  const finding = (field: string): Finding => ({
    type: 'missing',
    loc: `body.messages.${at}.${field}`,
    message: 'Field required',
    input: message,
  })
  const fields: string[] = []
  for (const type of roleTypes) {
    if (type === 'Function') fields.push(`ChatCompletion${type}MessageParam.name`)
    fields.push(`ChatCompletion${type}MessageParam.role`)
    if (type === 'Tool') fields.push(`ChatCompletion${type}MessageParam.tool_call_id`)
  }
  fields.push('CustomChatCompletionMessageParam.role', 'Message.author', 'Message.role')
  const [first, ...rest] = fields.map(finding)
  throw invalidBody(first!, ...rest)
}
