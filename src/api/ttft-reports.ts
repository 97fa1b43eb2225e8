/** `/ttft_report`: TTFT reports of engines and proxies, after vllm-ascend #12. */
import type { Context } from 'hono'
import type { HonoBase } from 'hono/hono-base'
import { readPartial, type ReportPartial } from '../core/reports/report-partial.ts'
import type { AddedReport } from '../core/reports/report-store.ts'
import type { RequestReport } from '../core/reports/ttft-state.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { Ttft } from '../ports/ttft.ts'
import { readBounded } from './body.ts'
import type { GatewayContext } from './context.ts'
import { flushAllWorkers } from './worker-queries.ts'
import { bearer } from './auth/bearer.ts'
import { KeyStore } from './auth/key-store.ts'
import { asFailure } from './error-response.ts'

type Env = { Bindings: RequestScope }

/** A partial report has some hundred bytes; a batch of a relay has a few thousand. */
const BODY_BYTES = 1_048_576
const MAX_BATCH = 5_000

/** Mounts the routes. If reports are off, they answer reporters with an error. */
export function mountTtft(app: HonoBase<Env>, context: GatewayContext): void {
  const { ttft } = context.ports
  if (!context.config.ttft.enabled || ttft === undefined) {
    app.all('/ttft_report', () =>
      json({ detail: 'TTFT reports are disabled. Set ttft.enabled: true in the configuration.' }, 404),
    )
    return
  }
  const reports = new ReportHandlers(context, ttft)
  app.post('/ttft_report', (c) => withReportErrors(context, () => reports.post(reportRequest(c), null)))
  app.post('/ttft_report/:token', (c) =>
    withReportErrors(context, () => reports.post(reportRequest(c), c.req.param('token'))),
  )
  app.get('/ttft_report/:id', (c) =>
    withReportErrors(context, () => reports.get(reportRequest(c), c.req.param('id'), null)),
  )
  app.get('/ttft_report/:token/:id', (c) =>
    withReportErrors(context, () => reports.get(reportRequest(c), c.req.param('id'), c.req.param('token'))),
  )
  app.all('/ttft_report', () =>
    json({ detail: 'POST reports to /ttft_report, GET them at /ttft_report/{request_id}' }, 405),
  )
  app.all('/ttft_report/*', () => json({ detail: 'not found' }, 404))
}

interface ReportRequest {
  readonly request: Request
  /** The request arrived at `ttft.listen`, which is for reporters without keys. */
  readonly isReporter: boolean
}

const reportRequest = ({ req, env }: Context<Env>): ReportRequest => ({
  request: req.raw,
  isReporter: env?.isReportListener === true,
})

class ReportHandlers {
  readonly #context: GatewayContext
  readonly #ttft: Ttft
  readonly #token: KeyStore<true> | null

  constructor(context: GatewayContext, ttft: Ttft) {
    this.#context = context
    this.#ttft = ttft
    const { token } = context.config.ttft
    this.#token = token === null ? null : new KeyStore([{ secret: token, holder: true }])
  }

  async post(from: ReportRequest, token: string | null): Promise<Response> {
    if (!(await this.#mayReport(from, token)) && !(this.#needsAdmin(from) && (await this.#isAdmin(from, token))))
      return this.#refused(from)
    const content = await this.#read(from.request)
    if (content === undefined)
      return json({ detail: 'the body is not JSON (NaN and Infinity are not JSON either)' }, 400)
    return Array.isArray(content) ? this.#batch(content) : this.#single(content)
  }

  /** The parsed body. undefined: no JSON. */
  async #read(request: Request): Promise<unknown> {
    const memory = this.#context.bodyMemory.open()
    try {
      return parse(await readBounded(request, BODY_BYTES, memory))
    } finally {
      memory.release()
    }
  }

  async get(from: ReportRequest, id: string, token: string | null): Promise<Response> {
    // The admin may read what reporters may read.
    if (!(await this.#mayReport(from, token)) && !(await this.#isAdmin(from, token))) return this.#refused(from)
    await flushAllWorkers(this.#context)
    const found = await this.#ttft.find(id)
    return found === null ? json({ detail: 'not found' }, 404) : json(reportView(found), 200)
  }

  async #single(report: unknown): Promise<Response> {
    const partial = readPartial(report)
    if ('detail' in partial) return json(partial, 400)
    const [added] = await this.#ttft.report([partial])
    this.#log([added!])
    return json({ request_id: added!.id, combined: added!.combined }, 200)
  }

  async #batch(reports: readonly unknown[]): Promise<Response> {
    if (reports.length > MAX_BATCH)
      return json({ detail: `The batch has ${reports.length} reports. Send at most ${MAX_BATCH}.` }, 400)
    const rejected: { readonly index: number; readonly detail: string }[] = []
    const partials: ReportPartial[] = []
    for (const [index, one] of reports.entries()) {
      const partial = readPartial(one)
      if ('detail' in partial) rejected.push({ index, ...partial })
      else partials.push(partial)
    }
    this.#log(await this.#ttft.report(partials))
    return json({ accepted: partials.length, rejected }, rejected.length > 0 && partials.length === 0 ? 400 : 200)
  }

  #log(added: readonly AddedReport[]): void {
    if (!this.#context.config.ttft.log) return
    for (const { id, news, combined } of added) {
      if (news !== 'none') this.#context.ports.log.info('ttft_report', { request_id: id, news, combined })
    }
  }

  async #mayReport(from: ReportRequest, token: string | null): Promise<boolean> {
    if (this.#token === null) return token === null && !this.#needsAdmin(from)
    return (await this.#token.find(token ?? bearer(from.request.headers) ?? '')) !== null
  }

  /** Without `ttft.token`, reports are accepted wherever the API needs no key, and at `ttft.listen`. */
  #needsAdmin({ isReporter }: ReportRequest): boolean {
    const { trust } = this.#context.authenticator
    return this.#token === null && !isReporter && (trust === 'keys' || trust === 'unconfigured')
  }

  #isAdmin({ request }: ReportRequest, token: string | null): Promise<boolean> {
    if (token !== null) return Promise.resolve(false)
    return this.#context.authenticator.admin(request.headers).then(
      () => true,
      () => false,
    )
  }

  #refused(from: ReportRequest): Response {
    const detail = this.#needsAdmin(from)
      ? 'Reports need the admin key while ttft.token is not set. Set ttft.token, or send reports to ttft.listen.'
      : 'The token is missing or invalid.'
    return json({ detail }, 401)
  }
}

/** Transport form of a report. */
export function reportView({ id, byRole, combined }: Pick<RequestReport, 'id' | 'byRole' | 'combined'>) {
  return { request_id: id, by_role: byRole, combined }
}

/** Writes no log line: there may be thousands of reports, and their path may contain a token. */
async function withReportErrors(context: GatewayContext, handle: () => Promise<Response>): Promise<Response> {
  try {
    return await handle()
  } catch (thrown) {
    const failure = asFailure(thrown)
    if (failure.reason === 'internal') context.ports.log.error('ttft_report_failed', { error: failure.cause })
    return json({ detail: failure.message }, failure.shape.status)
  }
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body)) as unknown
  } catch {
    return undefined
  }
}

function json(value: unknown, status: number): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })
}
