import type { RequestRecord } from '../core/reports/record.ts'

/** What the door remembers of one request, to answer `/v1/firstlight/requests/{id}`. */
export interface RecentRequest {
  readonly id: string
  readonly requestId: string
  readonly receivedAt: number
  readonly path: string
  readonly model: string | null
  readonly tenant: string
  status: number | null
  /** null: it has not ended. */
  record: RequestRecord | null
}

/** The last requests, in a ring: old ones are overwritten, nothing grows. Labels are not unique; the newest counts. */
export class RecentRequests {
  readonly #ring: RecentRequest[] = []
  readonly #limit: number
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(request: RecentRequest): void {
    this.#ring[this.#next] = request
    this.#next = (this.#next + 1) % this.#limit
  }

  /** By the gateway's id or the client's label; a scan, for people. */
  find(id: string): RecentRequest | null {
    for (let back = 1; back <= this.#ring.length; back++) {
      const request = this.#ring[(this.#next - back + this.#limit) % this.#limit]
      if (request !== undefined && (request.id === id || request.requestId === id)) return request
    }
    return null
  }
}
