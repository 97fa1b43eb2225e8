/** The same faults with other gateways in front of the engines, beside the rows of Firstlight. */
import type { BenchRow } from '../result.ts'
import type { Fault } from './faults.ts'
import type { Figures } from './figures.ts'

/** Peers that are run with `--peers`. */
const PEERS = ['vllm-router', 'smg', 'nginx', 'sglang-router'] as const

/** A row of one gateway. */
export interface PeerRow {
  readonly peer: string
  readonly fault: Fault
  /** null: it could not run. */
  readonly figures: Figures | null
  /** Why it could not. Absent: it ran. */
  readonly notRun?: string
}

/** Row of Firstlight that no other gateway runs. */
interface OwnRow {
  readonly name: string
  readonly why: string
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
  const played = async (fault: Fault, peer: string): Promise<Pick<PeerRow, 'figures' | 'notRun'>> => {
    if (fault.kind === 'wrong') return { figures: null, notRun: 'it does not compare answers' }
    try {
      return { figures: await play(fault, peer) }
    } catch (error) {
      const notRun = error instanceof Error ? error.message : String(error)
      note(`${peer}: not run: ${notRun}`)
      return { figures: null, notRun }
    }
  }
  const rows: PeerRow[] = []
  for (const peer of PEERS)
    for (const fault of faults) {
      note(`${peer}: ${fault.name}`)
      rows.push({ peer, fault, ...(await played(fault, peer)) })
    }
  return rows
}

export const shownPeer = ({ peer, fault, figures, notRun = '' }: PeerRow): BenchRow => ({
  fault: `${fault.name}, ${peer}`,
  ...(figures ?? { not_run: notRun }),
})

/** Rows of Firstlight that no peer ran, each once for every peer. */
export const shownOwn = (own: readonly OwnRow[]): BenchRow[] =>
  PEERS.flatMap((peer) => own.map(({ name, why }) => ({ fault: `${name}, ${peer}`, not_run: why })))

interface OwnRows {
  /** Those of the same run, which are compared. */
  readonly compared: readonly ({ readonly fault: Fault } & Figures)[]
  /** Number of the others. */
  readonly others: number
}

export function peerHeadline(rows: readonly PeerRow[], { compared, others }: OwnRows): Record<string, number> {
  const run = rows.filter(({ figures }) => figures !== null)
  const isBehind = (row: OwnRows['compared'][number]): boolean =>
    run.some(({ fault, figures }) => fault === row.fault && isWorse(row, figures!))
  return {
    peers_run: new Set(run.map(({ peer }) => peer)).size,
    rows_behind_a_peer: compared.filter(isBehind).length,
    rows_not_run_by_peers: rows.length - run.length + others * PEERS.length,
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
