/** Images from a text. */
import { NO_TEXT_DECODED, ONE_PASS } from './one-pass.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type Protocol } from './protocol.ts'
import { usageOfInputTokens } from './reported-usage.ts'

export const images: Protocol = {
  ...ONE_PASS,
  name: 'images',
  operation: 'generations',
  endpoints: [{ ...PLAIN_ENDPOINT, path: '/v1/images/generations', unsplittable: NO_TEXT_DECODED }],
  prompt: () => UNREADABLE,
  usage: usageOfInputTokens,
}
