import type { RecentRequest } from '../core/reports/recent-request.ts'

/** The last requests, in a ring buffer. Labels are not unique: the newest counts. */
export class RequestHistory {
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
      if (request !== undefined && (request.record.id === id || request.record.requestId === id)) return request
    }
    return null
  }
}
