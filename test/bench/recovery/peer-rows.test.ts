import { describe, expect, it } from 'vitest'
import { faults } from '../../../packages/bench/recovery/faults.ts'
import type { Figures } from '../../../packages/bench/recovery/figures.ts'
import { peerHeadline, peerRows } from '../../../packages/bench/recovery/peer-rows.ts'

const figures = (changes: Partial<Figures> = {}): Figures => ({
  last_placement_s: 1,
  overdue_s: null,
  placed: 3,
  lost: 0,
  streams_ended: 0,
  late: 0,
  p99_before_ms: 100,
  siblings_p99_ms: 100,
  back_in_use_s: 1,
  ...changes,
})
const named = (name: string) => faults.find((fault) => fault.name === name)!
const reset = named('reset')

describe('rows of other gateways', () => {
  it('rows of other gateways list what could not run, such as wrong tokens, and go on', async () => {
    const play = async (_fault: unknown, peer: string): Promise<Figures> => {
      if (peer === 'nginx') throw new Error('not installed')
      return figures()
    }
    const rows = await peerRows([reset, named('wrong tokens')], play, () => {})
    const ran = rows.filter((row) => row.figures !== null).map(({ peer, fault }) => `${peer} ${fault.name}`)
    expect(ran).toEqual(['vllm-router reset', 'smg reset', 'sglang-router reset'])
    expect(peerHeadline(rows, { compared: [], others: 2 })).toEqual({
      peers_run: 3,
      rows_behind_a_peer: 0,
      rows_not_run_by_peers: 5 + 2 * 4,
    })
    expect(rows.filter(({ notRun }) => notRun !== undefined).map(({ peer, notRun }) => `${peer}: ${notRun}`)).toEqual([
      'vllm-router: it does not compare answers',
      'smg: it does not compare answers',
      'nginx: not installed',
      'nginx: it does not compare answers',
      'sglang-router: it does not compare answers',
    ])
  })

  it.each([
    ['loses one request more', { lost: 1 }],
    ['places requests more than half a second longer', { last_placement_s: 1.6 }],
    ['is used again more than half a second later', { back_in_use_s: 1.6 }],
    ['is not used again', { back_in_use_s: null }],
  ])('rows of other gateways are ahead if Firstlight %s', (_what, changes) => {
    const peers = [{ peer: 'smg', fault: reset, figures: figures() }]
    const behind = (own: Figures): number | undefined =>
      peerHeadline(peers, { compared: [{ fault: reset, ...own }], others: 0 })['rows_behind_a_peer']
    expect(behind(figures())).toBe(0)
    expect(behind(figures({ last_placement_s: 1.4, back_in_use_s: 1.4 }))).toBe(0)
    expect(behind(figures(changes))).toBe(1)
  })
})
