/** Speech and images from a text. */
import { ONE_PASS } from './one-pass.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type Protocol } from './protocol.ts'
import { usageOfInputTokens } from './reported-usage.ts'

const NO_TEXT = 'no text is decoded'

export const speech: Protocol = {
  ...ONE_PASS,
  name: 'speech',
  operation: 'speech',
  endpoints: [{ ...PLAIN_ENDPOINT, path: '/v1/audio/speech', unsplittable: NO_TEXT }],
  prompt: () => UNREADABLE,
  // The answer is audio.
  answersJson: () => false,
  usage: usageOfInputTokens,
}

export const images: Protocol = {
  ...ONE_PASS,
  name: 'images',
  operation: 'generations',
  endpoints: [{ ...PLAIN_ENDPOINT, path: '/v1/images/generations', unsplittable: NO_TEXT }],
  prompt: () => UNREADABLE,
  usage: usageOfInputTokens,
}
