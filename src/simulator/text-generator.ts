import { rollHash, hashText } from './block-pool.ts'
import { encode } from './tokenizer.ts'

/**
 * The simulated model's "weights". The next word depends on all tokens before it and on the model's name, and on
 * nothing else: greedy answers are stable, an answer that is continued elsewhere goes on as it would have, and a
 * prefill/decode pair says what one engine says.
 */
const words = (
  'the and for are but not you all can her was one our out day get has him his how man new now old see two way who ' +
  'boy did its let put say she too use sun sky sea air ice dew fog fox owl cat dog cow hen bee ant elm oak ivy fig ' +
  'tea pie jam egg oil red tan big shy odd raw wet dry hot icy low far few own any due may ask try run sit eat fly ' +
  'row sow mow dig cut mix add win pay buy sew hum nod'
).split(' ')
// Each is one token, so an answer that comes back in the next prompt has the tokens it was made of.
const wordIds = words.map((word) => encode(` ${word}`)[0]!)
const STOP_ODDS = 96

export interface GenerationLimits {
  /** Most tokens to generate. */
  readonly maxTokens: number
  /** Stop where the model would, about every hundredth token; false: go on to `maxTokens`. */
  readonly mayStop: boolean
  readonly minTokens: number
}

export interface Generation {
  readonly tokens: Uint32Array
  /** The model stopped by itself. */
  readonly stopped: boolean
}

/** What the model of that name answers to these tokens. `variant` tells apart several answers to one prompt. */
export function generate(model: string, prompt: Uint32Array, limits: GenerationLimits, variant = 0): Generation {
  let state = hashText(model, variant)
  for (let at = 0; at < prompt.length; at += 1) state = rollHash(state, prompt[at]!)
  const tokens = new Uint32Array(limits.maxTokens)
  for (let count = 0; count < limits.maxTokens; count += 1) {
    if (limits.mayStop && count >= limits.minTokens && count > 0 && state % STOP_ODDS === 0) {
      return { tokens: tokens.slice(0, count), stopped: true }
    }
    const token = wordIds[(state >>> 8) % wordIds.length]!
    tokens[count] = token
    state = rollHash(state, token)
  }
  return { tokens, stopped: false }
}
