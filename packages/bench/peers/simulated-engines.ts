/**
 * Simulated engines in a process of their own: `node simulated-engines.ts ENGINES TIME_SCALE` prints
 * `{"port":N,"ports":[…]}`. All times of the profile are divided by TIME_SCALE.
 */
import { startFleet } from '../../simulator/src/node/fleet-host.ts'
import { profileNamed } from '../../simulator/src/profiles.ts'
import type { StepCostModel } from '../../simulator/src/step-cost.ts'
import { MODEL, PROFILE } from './simulated-fleet.ts'

const [engines, timeScale] = process.argv.slice(2).map(Number) as [number, number]
const profile = profileNamed(PROFILE)
const scaled = Object.entries(profile.costModel).map(([name, ms]) => [
  name,
  name === 'expertShare' ? ms : ms / timeScale,
])
const { urls } = await startFleet({
  engines,
  model: MODEL,
  profile: { ...profile, costModel: Object.fromEntries(scaled) as unknown as StepCostModel },
  limits: { maxModelLen: 1_048_576 },
  keepRequests: 0,
})
const ports = urls.map((url) => Number(new URL(url).port))
console.log(JSON.stringify({ port: ports[0], ports }))
