import type { Context } from 'hono'
import type { Ports } from '../../ports.ts'
import { asFailure } from '../../origin/gateway-error.ts'
import { type App, newApp } from '../new-app.ts'
import type { RequestEnv } from '../middleware/middleware.ts'
import { ReportHandlers, reportJson, type ReportParts, type ReportRequest } from '../ttft-reports.ts'

interface TtftRouteParts extends ReportParts {
  readonly ports: ReportParts['ports'] & Pick<Ports, 'ttft'>
}

/** `/ttft_report`: reports of engines and proxies. Off: reporters get an error that names the setting. */
export function ttftRoutes(parts: TtftRouteParts): App {
  const app = newApp()
  const { ttft } = parts.ports
  if (!parts.config.ttft.enabled || ttft === undefined)
    return app.all('/ttft_report', () =>
      reportJson({ detail: 'TTFT reports are disabled. Set ttft.enabled: true in the configuration.' }, 404),
    ) as App
  const reports = new ReportHandlers(parts, ttft)
  app.post('/ttft_report', (c) => reports.post(reportRequest(c), null))
  app.post('/ttft_report/:token', (c) => reports.post(reportRequest(c), c.req.param('token')))
  app.get('/ttft_report/:id', (c) => reports.get(reportRequest(c), c.req.param('id'), null))
  app.get('/ttft_report/:token/:id', (c) => reports.get(reportRequest(c), c.req.param('id'), c.req.param('token')))
  app.all('/ttft_report', () =>
    reportJson({ detail: 'POST reports to /ttft_report, GET them at /ttft_report/{request_id}' }, 405),
  )
  app.all('/ttft_report/*', () => reportJson({ detail: 'not found' }, 404))
  // No log line: there may be thousands of reports, and their path may contain a token.
  app.onError((thrown) => {
    const failure = asFailure(thrown)
    if (failure.reason === 'internal') parts.ports.log.error('ttft_report_failed', { error: failure.cause })
    return reportJson({ detail: failure.message }, failure.shape.status)
  })
  return app
}

const reportRequest = ({ req, env }: Context<RequestEnv>): ReportRequest => ({
  request: req.raw,
  isReporter: env?.isReportListener === true,
})
