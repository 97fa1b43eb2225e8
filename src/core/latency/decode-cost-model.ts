/** Seconds between two output tokens of one request: `baseS + perRequestS * running + perBlockS * blocks`. */
export interface DecodeCostModel {
  readonly baseS: number
  readonly perRequestS: number
  readonly perBlockS: number
}

/** Cost model of vllm-router's program scheduling: 10.635 ms + 0.419 ms a request + 0.142 us a token of context. */
const BASE_S = 0.010635

const PER_REQUEST_S = 0.00041928

const PER_CONTEXT_TOKEN_S = 1.42e-7

export function tokenSeconds(costModel: DecodeCostModel, running: number, blocks: number): number {
  return costModel.baseS + costModel.perRequestS * running + costModel.perBlockS * blocks
}

export function decodeCostModelAt(logPace: number, blockTokens: number): DecodeCostModel {
  const pace = Math.exp(logPace)
  return {
    baseS: BASE_S * pace,
    perRequestS: PER_REQUEST_S * pace,
    perBlockS: PER_CONTEXT_TOKEN_S * blockTokens * pace,
  }
}
