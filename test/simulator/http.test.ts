import { fleetByFetch } from './fleet-by-fetch.ts'

fleetByFetch('Node')
