import { describe, expect, it } from 'vitest'
import { readShareGpt } from '../../packages/replay/src/load/sharegpt.ts'
import { multiRound, type RoundsWorkload } from '../../packages/replay/src/replay/workloads.ts'

const message = (from: string, tokens: number) => ({ from, value: 'x', num_tokens: tokens })
const human = (tokens: number) => message('human', tokens)
const gpt = (tokens: number) => message('gpt', tokens)

describe('conversations of a ShareGPT file', () => {
  const sizes = { rounds: 2, answerTokens: 50 }

  it('conversations of a ShareGPT file are those with more than two messages a round, with answers up to the limit', () => {
    const file = [
      { conversations: [human(10), gpt(20), human(30), gpt(400)] },
      { conversations: [human(10), gpt(20), human(30), gpt(400), human(1)] },
    ]
    expect(readShareGpt(JSON.stringify(file), sizes)).toEqual([
      [
        { questionTokens: 10, answerTokens: 20 },
        { questionTokens: 30, answerTokens: 50 },
      ],
    ])
  })

  it('skip an answer at the start', () => {
    const file = [{ conversations: [gpt(1), human(2), gpt(3), human(4), gpt(5)] }]
    expect(readShareGpt(JSON.stringify(file), sizes)).toEqual([
      [
        { questionTokens: 2, answerTokens: 3 },
        { questionTokens: 4, answerTokens: 5 },
      ],
    ])
  })

  it('conversations of a ShareGPT file count a token for four characters where the file has no count', () => {
    const text = { from: 'human', value: 'a'.repeat(41) }
    const file = [{ conversations: [text, gpt(1), text] }]
    expect(readShareGpt(JSON.stringify(file), { rounds: 1, answerTokens: 9 })[0]![0]!.questionTokens).toBe(11)
  })

  it.each([
    ['{}', 'it must be an array'],
    ['[{}]', 'entry 0 has no array "conversations"'],
    ['[{"conversations":[{},{},{}]}]', 'entry 0 has a message without the text "value"'],
  ])('%s is refused by name', (text, error) => {
    expect(() => readShareGpt(text, { rounds: 1, answerTokens: 9 })).toThrow(error)
  })
})

describe('users of multi-round conversations', () => {
  const workload: RoundsWorkload = {
    name: 'w',
    users: 3,
    rounds: 2,
    systemTokens: 32,
    historyTokens: 64,
    questionTokens: 16,
    answerTokens: 16,
    joinMs: 1,
    thinkMs: 10,
    blockTokens: 16,
    named: true,
  }
  const promptsOf = (firstUser: number) =>
    new Map(
      multiRound({ ...workload, firstUser }).requests.map(({ session, promptTokens, blocks }) => [
        `${session}:${promptTokens}`,
        blocks.join(),
      ]),
    )

  it('users of multi-round conversations send equal prompts under equal numbers, and others under other numbers', () => {
    const [first, second] = [promptsOf(0), promptsOf(2)]
    expect([...second.keys()].slice(0, 2)).toEqual(['user-2:112', 'user-3:112'])
    expect(second.get('user-2:144')).toBe(first.get('user-2:144'))
    const old = new Set([...first].filter(([name]) => !name.startsWith('user-2')).map(([, blocks]) => blocks))
    for (const blocks of second.values()) expect(old.has(blocks)).toBe(false)
  })

  it('users of multi-round conversations have rounds of their own sizes', () => {
    const roundsOf = (user: number) => [
      { questionTokens: 10 * user, answerTokens: 1 },
      { questionTokens: 5, answerTokens: 2 },
    ]
    const { requests } = multiRound({ ...workload, users: 1, firstUser: 4, roundsOf })
    expect(requests.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens])).toEqual([
      [96 + 40, 1],
      [96 + 40 + 1 + 5, 2],
    ])
  })
})
