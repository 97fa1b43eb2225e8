import { fleetByFetch } from '../simulator/fleet-by-fetch.ts'

fleetByFetch('workerd')
