/** Edits of images, uploaded as a form. Only its size counts as prompt. */
import { ONE_PASS } from './one-pass.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { type Protocol, UPLOAD_ENDPOINT } from './protocol.ts'
import { usageOfInputTokens } from './reported-usage.ts'

export const imageEdits: Protocol = {
  ...ONE_PASS,
  name: 'image_edits',
  operation: 'edits',
  endpoints: [{ ...UPLOAD_ENDPOINT, path: '/v1/images/edits' }],
  prompt: () => UNREADABLE,
  usage: usageOfInputTokens,
}
