/** Speech from a text. */
import { NO_TEXT_DECODED, ONE_PASS } from './one-pass.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type Protocol } from './protocol.ts'
import { usageOfInputTokens } from './reported-usage.ts'

export const speech: Protocol = {
  ...ONE_PASS,
  name: 'speech',
  operation: 'speech',
  endpoints: [{ ...PLAIN_ENDPOINT, path: '/v1/audio/speech', unsplittable: NO_TEXT_DECODED }],
  prompt: () => UNREADABLE,
  // The answer is audio.
  answersJson: () => false,
  usage: usageOfInputTokens,
}
