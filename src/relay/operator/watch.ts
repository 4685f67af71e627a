/** Metrics for machines and activity for the console, as one observer. Made before the engine. */
import type { Clock } from '../../lib/clock.ts';
import type { EngineObserver } from '../engine/observer.ts';
import type { FinishedRequest } from '../http/handler.ts';
import { Activity } from './activity.ts';
import { RelayMetrics } from './metrics.ts';

export class Watch {
  readonly metrics: RelayMetrics;
  readonly activity: Activity;
  readonly observer: EngineObserver;

  constructor(version: string, clock: Clock) {
    const metrics = new RelayMetrics(version);
    const activity = new Activity(clock);
    this.metrics = metrics;
    this.activity = activity;
    this.observer = {
      pushed: (outcomes) => {
        metrics.pushed(outcomes);
        activity.pushed(outcomes);
      },
      unread: (rejection, count) => {
        metrics.unread(rejection, count);
        activity.unread(rejection, count);
      },
      pulled: (target, through) => activity.pulled(target, through),
      committed: (batch) => {
        metrics.committed(batch);
        activity.committed(batch);
      },
    };
  }

  finished(request: FinishedRequest): void {
    this.metrics.finished(request);
    this.activity.finished(request);
  }
}
