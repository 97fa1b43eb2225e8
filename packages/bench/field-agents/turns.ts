/** Turns of conversations as engines served them, with the gateway's predictions. */
import type { AgentGateway } from './gateway.ts'
import type { ServedRequest } from './served-request.ts'
import { fileOf } from './task.ts'

/** A request of a conversation. */
export interface Turn {
  readonly conversation: string
  /** From 1. */
  readonly turn: number
  readonly engine: string
  readonly promptTokens: number
  /** Shares of the prompt. */
  readonly predictedShare: number | null
  readonly trueShare: number
  /** The engine had at least as much of the prompt as any other. */
  readonly onHolder: boolean
}

export async function turnsOf(
  served: readonly ServedRequest[],
  gateway: Pick<AgentGateway, 'predicted'>,
): Promise<Turn[]> {
  const turns: Turn[] = []
  const counts = new Map<string, number>()
  for (const { engine, headers, body, prompt, cachedAt, fault } of served) {
    const conversation = fileOf(body)
    if (conversation === null || fault !== null) continue
    const turn = (counts.get(conversation) ?? 0) + 1
    counts.set(conversation, turn)
    const predicted = await gateway.predicted(String(headers['x-request-id']))
    turns.push({
      conversation,
      turn,
      engine,
      promptTokens: prompt.tokens,
      predictedShare: predicted === null ? null : predicted.cachedTokens / predicted.promptTokens,
      trueShare: cachedAt[engine]! / prompt.tokens,
      onHolder: cachedAt[engine] === Math.max(...Object.values(cachedAt)),
    })
  }
  return turns
}

export interface TurnFigures {
  /** Turns after the first of each conversation. */
  readonly followUps: number
  readonly shareErrorMax: number
  readonly onHolder: number
}

/** Throws if a turn has no prediction: a figure without it would look good. */
export function figuresOf(turns: readonly Turn[]): TurnFigures {
  const later = turns.filter(({ turn }) => turn > 1)
  if (later.length === 0) throw new Error('no conversation had a second turn')
  const errors = later.map(({ predictedShare, trueShare, conversation, turn }) => {
    if (predictedShare === null) throw new Error(`the gateway has no decision of turn ${turn} of ${conversation}`)
    return Math.abs(predictedShare - trueShare)
  })
  return {
    followUps: later.length,
    shareErrorMax: Math.max(...errors),
    onHolder: later.filter(({ onHolder }) => onHolder).length / later.length,
  }
}
