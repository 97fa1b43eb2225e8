/** `/ttft_report`: TTFT reports of engines and proxies, after vllm-ascend #12. */
import { readPartial, type ReportPartial } from '../core/reports/report-partial.ts'
import type { AddedReport } from '../core/reports/report-store.ts'
import type { RequestReport } from '../core/reports/ttft-state.ts'
import type { Ttft } from '../ports/ttft.ts'
import { readBounded } from './body/body.ts'
import type { BodyMemory } from '../body-memory.ts'
import type { Config } from '../config.ts'
import type { Ports } from '../ports.ts'
import type { Authenticator } from './auth/authenticator.ts'
import { type CountParts, flushGroup } from './group-queries.ts'
import type { TtftReportView } from './openapi/request.ts'
import { bearer } from './auth/bearer.ts'
import { KeyStore } from './auth/key-store.ts'

/** A partial report has some hundred bytes; a batch of a relay has a few thousand. */
const BODY_BYTES = 1_048_576
const MAX_BATCH = 5_000

export interface ReportParts extends CountParts {
  readonly config: Pick<Config, 'ttft'>
  readonly ports: Pick<Ports, 'log'>
  readonly bodyMemory: Pick<BodyMemory, 'open'>
  readonly authenticator: Pick<Authenticator, 'admin' | 'trust'>
}

export interface ReportRequest {
  readonly request: Request
  /** The request arrived at `ttft.listen`, which is for reporters without keys. */
  readonly isReporter: boolean
}

export class ReportHandlers {
  readonly #parts: ReportParts
  readonly #ttft: Ttft
  readonly #token: KeyStore<true> | null

  constructor(parts: ReportParts, ttft: Ttft) {
    this.#parts = parts
    this.#ttft = ttft
    const { token } = parts.config.ttft
    this.#token = token === null ? null : new KeyStore([{ secret: token, holder: true }])
  }

  async post(from: ReportRequest, token: string | null): Promise<Response> {
    if (!(await this.#mayReport(from, token)) && !(this.#needsAdmin(from) && (await this.#isAdmin(from, token))))
      return this.#refused(from)
    const content = await this.#read(from.request)
    if (content === undefined)
      return reportJson({ detail: 'the body is not JSON (NaN and Infinity are not JSON either)' }, 400)
    return Array.isArray(content) ? this.#batch(content) : this.#single(content)
  }

  /** The parsed body. undefined: no JSON. */
  async #read(request: Request): Promise<unknown> {
    const memory = this.#parts.bodyMemory.open()
    try {
      return parse(await readBounded(request, BODY_BYTES, memory))
    } finally {
      memory.release()
    }
  }

  async get(from: ReportRequest, id: string, token: string | null): Promise<Response> {
    // The admin may read what reporters may read.
    if (!(await this.#mayReport(from, token)) && !(await this.#isAdmin(from, token))) return this.#refused(from)
    await flushGroup(this.#parts)
    const found = await this.#ttft.find(id)
    return found === null ? reportJson({ detail: 'not found' }, 404) : reportJson(reportView(found), 200)
  }

  async #single(report: unknown): Promise<Response> {
    const partial = readPartial(report)
    if ('detail' in partial) return reportJson(partial, 400)
    const [added] = await this.#ttft.report([partial])
    this.#log([added!])
    return reportJson({ request_id: added!.id, combined: added!.combined }, 200)
  }

  async #batch(reports: readonly unknown[]): Promise<Response> {
    if (reports.length > MAX_BATCH)
      return reportJson({ detail: `The batch has ${reports.length} reports. Send at most ${MAX_BATCH}.` }, 400)
    const rejected: { readonly index: number; readonly detail: string }[] = []
    const partials: ReportPartial[] = []
    for (const [index, one] of reports.entries()) {
      const partial = readPartial(one)
      if ('detail' in partial) rejected.push({ index, ...partial })
      else partials.push(partial)
    }
    this.#log(await this.#ttft.report(partials))
    return reportJson({ accepted: partials.length, rejected }, rejected.length > 0 && partials.length === 0 ? 400 : 200)
  }

  #log(added: readonly AddedReport[]): void {
    if (!this.#parts.config.ttft.log) return
    for (const { id, news, combined } of added) {
      if (news !== 'none') this.#parts.ports.log.info('ttft_report', { request_id: id, news, combined })
    }
  }

  async #mayReport(from: ReportRequest, token: string | null): Promise<boolean> {
    if (this.#token === null) return token === null && !this.#needsAdmin(from)
    return (await this.#token.find(token ?? bearer(from.request.headers) ?? '')) !== null
  }

  /** Without `ttft.token`, reports are accepted wherever the API needs no key, and at `ttft.listen`. */
  #needsAdmin({ isReporter }: ReportRequest): boolean {
    const { trust } = this.#parts.authenticator
    return this.#token === null && !isReporter && (trust === 'keys' || trust === 'unconfigured')
  }

  #isAdmin({ request }: ReportRequest, token: string | null): Promise<boolean> {
    if (token !== null) return Promise.resolve(false)
    return this.#parts.authenticator.admin(request.headers).then(
      () => true,
      () => false,
    )
  }

  #refused(from: ReportRequest): Response {
    const detail = this.#needsAdmin(from)
      ? 'Reports need the admin key while ttft.token is not set. Set ttft.token, or send reports to ttft.listen.'
      : 'The token is missing or invalid.'
    return reportJson({ detail }, 401)
  }
}

/** Transport form of a report. */
export function reportView({
  id,
  byRole,
  combined,
}: Pick<RequestReport, 'id' | 'byRole' | 'combined'>): TtftReportView {
  return { request_id: id, by_role: byRole, combined }
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body)) as unknown
  } catch {
    return undefined
  }
}

export function reportJson(value: unknown, status: number): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })
}
