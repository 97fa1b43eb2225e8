import { describe, expect, it } from 'vitest'
import { importTrace } from '../../packages/replay/src/replay/importers.ts'

const sizes = (text: string, limit?: number) =>
  importTrace('t', text, limit === undefined ? {} : { limit })!.requests.map(
    ({ atMs, promptTokens, outputTokens, blocks }) => [atMs, promptTokens, outputTokens, blocks.length / 2],
  )

describe('importers of traces', () => {
  it('the importer of traces reads the Azure trace of 2023, with seven decimal places', () => {
    const rows = ['TIMESTAMP,ContextTokens,GeneratedTokens', '2023-11-16 18:15:46.6805900,374,44', '']
    rows.splice(2, 0, '2023-11-16 18:15:50.9951690,1396,109')
    const [first, second] = sizes(rows.join('\r\n'))
    expect(first).toEqual([0, 374, 44, 0])
    expect(second![0]).toBeCloseTo(4314.579, 2)
    expect(second!.slice(1)).toEqual([1396, 109, 2])
  })

  it('the importer of traces reads the Azure trace of 2024, with a time zone', () => {
    const text =
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01+00:00,1,9\n'
    expect(sizes(text).map(([atMs]) => Math.round(atMs!))).toEqual([0, 990])
  })

  it('reads BurstGPT, and leaves failed requests out', () => {
    const text =
      'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n' +
      '45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n'
    expect(sizes(text)).toEqual([
      [0, 472, 18, 0],
      [113_000, 417, 276, 0],
    ])
    expect(sizes(text, 1)).toHaveLength(1)
  })

  it('the importer of traces reads a result of vllm bench serve, with and without start times', () => {
    const bench = { input_lens: [1024, 8], output_lens: [128, 2], request_rate: 4 }
    expect(sizes(JSON.stringify(bench))).toEqual([
      [0, 1024, 128, 2],
      [250, 8, 2, 0],
    ])
    expect(sizes(JSON.stringify({ ...bench, request_rate: 'inf' })).map(([atMs]) => atMs)).toEqual([0, 0])
    expect(sizes(JSON.stringify({ ...bench, start_times: [101, 100.5] }))).toEqual([
      [0, 8, 2, 0],
      [500, 1024, 128, 2],
    ])
  })

  it('reads ShareGPT: a turn shares the conversation so far', () => {
    const say = (from: string, value: string) => ({ from, value })
    const list = [
      {
        conversations: [
          say('human', 'q'.repeat(128)),
          say('gpt', 'a'.repeat(64)),
          say('human', 'next'),
          say('gpt', 'b'),
        ],
      },
      { conversations: [say('human', 'q'.repeat(64) + 'other'), say('gpt', 'c')] },
      { conversations: [say('gpt', 'without a question')] },
    ]
    const { requests, blockTokens } = importTrace('s', JSON.stringify(list))!
    expect(blockTokens).toBe(16)
    const [first, other, second] = requests
    expect([first!.promptTokens, first!.outputTokens, first!.blocks.length / 2]).toEqual([32, 16, 2])
    expect([second!.promptTokens, second!.outputTokens, second!.thinkMs]).toEqual([49, 1, 10_000])
    expect(second!.session).toBe(first!.session)
    expect(second!.blocks.slice(0, 4)).toEqual(first!.blocks)
    expect(other!.blocks).toEqual(first!.blocks.slice(0, 2))
    expect(requests).toHaveLength(3)
  })

  it('the importer of traces leaves Mooncake’s format alone, and names an invalid line', () => {
    expect(importTrace('m', '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": []}')).toBe(null)
    const read = (text: string) => () => importTrace('x', text)
    expect(read('Timestamp,Model\n1,x')).toThrow('line 1 of the trace has no column for prompt tokens')
    const azure = 'TIMESTAMP,ContextTokens,GeneratedTokens\n'
    expect(read(`${azure}yesterday,1,1`)).toThrow('line 2 of the trace has timestamp "yesterday"')
    expect(read(`${azure}1,x,1`)).toThrow('line 2 of the trace has token counts that are not numbers')
    expect(read('[{}]')).toThrow('has no list `conversations` in element 0')
    expect(read('{"input_lens": 3}')).toThrow('use --save-detailed')
  })
})
