/** The service level objective (SLO) that counts as goodput, as flags of `replay` and `load`. */
import type { Args, Command } from '../../../../src/cli/commands/command.ts'
import type { Slo } from '../replay/statistics.ts'

export const sloFlags: Command['flags'] = {
  'slo-ttft-ms': { type: 'string', value: 'N', about: 'Goodput: maximum time to first token. Default: 5000.' },
  'slo-ttft-ms-per-1k-tokens': {
    type: 'string',
    value: 'N',
    about: 'Goodput: added to --slo-ttft-ms for each 1,000 tokens of the prompt. Default: 0.',
  },
  'slo-itl-ms': { type: 'string', value: 'N', about: 'Goodput: maximum mean time between tokens. Default: 100.' },
}

export function sloOf(args: Args): Slo {
  const bounds = { min: 0, max: 1e9 }
  return {
    ttftMs: args.number('slo-ttft-ms', bounds) ?? 5000,
    ttftMsPer1kTokens: args.number('slo-ttft-ms-per-1k-tokens', bounds) ?? 0,
    itlMs: args.number('slo-itl-ms', bounds) ?? 100,
  }
}
