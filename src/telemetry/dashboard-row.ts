/** Rows of the Grafana dashboard (scripts/grafana.ts), in their order. */
export const DASHBOARD_ROWS = [
  'Health',
  'TTFT',
  'Load',
  'Requests',
  'Cost',
  'Cache',
  'Prediction',
  'Decisions',
  'Overload',
  'Capacity',
  'Learned',
  'Regions',
] as const

export type DashboardRow = (typeof DASHBOARD_ROWS)[number]
