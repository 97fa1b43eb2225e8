import { hashText, rollHash } from '../block-keys.ts'
import { encode } from '../tokenizer.ts'

/**
 * The simulated model's "weights". The next word depends only on the previous tokens and the model's name: greedy
 * answers are stable, an answer continued elsewhere is unchanged, and a prefill/decode pair gives the same answer as
 * one engine.
 */
const words = (
  'the and for are but not you all can her was one our out day get has him his how man new now old see two way who ' +
  'boy did its let put say she too use sun sky sea air ice dew fog fox owl cat dog cow hen bee ant elm oak ivy fig ' +
  'tea pie jam egg oil red tan big shy odd raw wet dry hot icy low far few own any due may ask try run sit eat fly ' +
  'row sow mow dig cut mix add win pay buy sew hum nod'
).split(' ')

// Each word is one token, so an answer that returns in the next prompt has the tokens it was generated with.
const wordIds = words.map((word) => encode(` ${word}`)[0]!)

const STOP_ODDS = 96

interface GenerationLimits {
  /** Most tokens to generate. */
  readonly maxTokens: number
  /** Stop where the model would, about every hundredth token; false: continue to `maxTokens`. */
  readonly mayStop: boolean
  readonly minTokens: number
}

interface Generation {
  readonly tokens: Uint32Array
  /** The model stopped before the limit. */
  readonly stopped: boolean
}

/** Generates the answer of a model to these tokens. `variant` distinguishes several answers to one prompt. */
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
