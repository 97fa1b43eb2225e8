/** The same faults with other gateways in front of the engines, beside the rows of Firstlight. */
import type { BenchRow } from '../result.ts'
import type { Fault } from './faults.ts'
import type { Figures } from './figures.ts'

/** Peers that are run with `--peers`. */
const PEERS = ['vllm-router', 'smg', 'nginx', 'sglang-router'] as const

/** A row of one gateway; null: it could not run. */
export interface PeerRow {
  readonly peer: string
  readonly fault: Fault
  readonly figures: Figures | null
}

/** Seconds by which a time may be worse. */
const BEHIND_S = 0.5

type Play = (fault: Fault, peer: string) => Promise<Figures>

/** Plays each fault with each peer that can be started, one at a time. */
export async function peerRows(
  faults: readonly Fault[],
  play: Play,
  note: (line: string) => void,
): Promise<readonly PeerRow[]> {
  const figuresOrNull = async (fault: Fault, peer: string): Promise<Figures | null> => {
    // No other gateway compares answers.
    if (fault.kind === 'wrong') return null
    try {
      return await play(fault, peer)
    } catch (error) {
      note(`${peer}: not run: ${String(error)}`)
      return null
    }
  }
  const rows: PeerRow[] = []
  for (const peer of PEERS)
    for (const fault of faults) {
      note(`${peer}: ${fault.name}`)
      rows.push({ peer, fault, figures: await figuresOrNull(fault, peer) })
    }
  return rows
}

export const shownPeer = ({ peer, fault, figures }: PeerRow): BenchRow => ({
  fault: `${fault.name}, ${peer}`,
  ...(figures ?? { not_run: true }),
})

/** @param own rows of Firstlight in the same run */
export function peerHeadline(
  rows: readonly PeerRow[],
  own: readonly ({ readonly fault: Fault } & Figures)[],
): Record<string, number> {
  const run = rows.filter(({ figures }) => figures !== null)
  const isBehind = (row: (typeof own)[number]): boolean =>
    run.some(({ fault, figures }) => fault === row.fault && isWorse(row, figures!))
  return {
    peers_run: new Set(run.map(({ peer }) => peer)).size,
    rows_behind_a_peer: own.filter(isBehind).length,
    rows_not_run_by_peers: rows.length - run.length,
  }
}

function isWorse(own: Figures, other: Figures): boolean {
  const isLater = (one: number | null, than: number | null): boolean =>
    than !== null && (one ?? Infinity) > than + BEHIND_S
  // A refused connection leaves no trace at an engine, so placements of a peer without one are unknown.
  const hadRequests = other.placed > 0
  return (
    own.lost > other.lost ||
    isLater(own.back_in_use_s, other.back_in_use_s) ||
    (hadRequests && (own.last_placement_s ?? 0) > (other.last_placement_s ?? 0) + BEHIND_S)
  )
}
