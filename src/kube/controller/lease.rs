//! Which replica does the work that nobody asks for, by a Lease.
//!
//! Calls are served by every replica: the sidecars elect their own leaders, and
//! a call is safe on any replica, because a volume's object can be made only
//! once. What the Lease is for can wait, so it is renewed once a minute only: a
//! replica that ends in order hands it over at once, and one that is killed is
//! followed after three minutes.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use super::api::is;
use crate::kube::names::MANAGER;

/// Times of a Lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// It is renewed so often.
    pub(super) renew: Duration,
    /// It may be taken from a holder who has not renewed it for so long.
    pub(super) expire: Duration,
    /// A holder who could not renew it for so long gives up.
    pub(super) give_up: Duration,
    /// Wait after an attempt that failed.
    pub(super) retry: Duration,
    /// How long the others leave the leader's work to it. After that they do it
    /// themselves: a leader that died holds its Lease for minutes, and whatever
    /// is done twice is done once.
    pub(super) follow: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(60),
            expire: Duration::from_secs(180),
            give_up: Duration::from_secs(150),
            retry: Duration::from_secs(5),
            follow: Duration::from_secs(20),
        }
    }
}

/// How long the API server may take to answer.
const ANSWER: Duration = Duration::from_secs(15);

/// A Lease and who wants it.
pub(super) struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
    terms: Terms,
    /// The Lease as it was seen last, and when that version appeared: clocks
    /// of other machines do not matter.
    seen: Option<(Lease, Instant)>,
    /// Nothing was seen before the first list.
    listed: bool,
    /// The list that is being read has shown the Lease.
    shown: bool,
    renewed: Option<Instant>,
}

impl Election {
    /// For the Lease of the driver in `namespace`.
    pub(super) fn new(
        client: Client,
        namespace: &str,
        driver: &str,
        identity: &str,
        terms: Terms,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: format!(
                "{MANAGER}-{}",
                driver.replace(['.', '_'], "-").to_lowercase()
            ),
            identity: identity.to_owned(),
            terms,
            seen: None,
            listed: false,
            shown: false,
            renewed: None,
        }
    }

    /// Takes part until `stop`, and then hands the Lease over. `leads` tells
    /// whether this replica holds it.
    pub(super) async fn run(mut self, leads: watch::Sender<bool>, stop: CancellationToken) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let stream = watcher(self.api.clone(), config).default_backoff();
        let mut stream = std::pin::pin!(stream);
        loop {
            let wait = self.act(&leads).await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
                Some(event) = stream.next() => self.see(event),
            }
        }
        let led = leads.send_replace(false);
        if led && let Err(error) = self.write("").await {
            tracing::warn!(%error, "the Lease is not handed over; it expires");
        }
    }

    fn see(&mut self, event: Result<watcher::Event<Lease>, watcher::Error>) {
        let now = Instant::now();
        self.shown |= matches!(event, Ok(watcher::Event::InitApply(_)));
        match event {
            Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => {
                let known = self
                    .seen
                    .as_ref()
                    .map(|(lease, _)| lease.resource_version());
                if known != Some(lease.resource_version()) {
                    self.seen = Some((lease, now));
                }
            }
            Ok(watcher::Event::Delete(_)) => self.seen = None,
            Ok(watcher::Event::Init) => self.shown = false,
            Ok(watcher::Event::InitDone) => {
                self.listed = true;
                // Deleted while nobody watched.
                if !self.shown {
                    self.seen = None;
                }
            }
            Err(error) => tracing::warn!(%error, "watch of the Lease"),
        }
    }

    /// Takes or renews the Lease if it is time, and returns how long to wait.
    async fn act(&mut self, leads: &watch::Sender<bool>) -> Duration {
        if !self.listed {
            return self.terms.retry;
        }
        let wait = self.free_in();
        if !wait.is_zero() {
            if self.holder() != Some(self.identity.as_str()) {
                self.renewed = None;
                tell(leads, false);
            }
            return wait;
        }
        let begun = Instant::now();
        let identity = self.identity.clone();
        let answer = tokio::time::timeout(ANSWER, self.write(&identity)).await;
        match answer.unwrap_or_else(|late| Err(kube::Error::Service(late.into()))) {
            Ok(true) => {
                self.renewed = Some(begun);
                tell(leads, true);
                self.terms.renew
            }
            // Another was quicker: the watch will tell.
            Ok(false) => self.terms.retry,
            Err(error) => {
                tracing::warn!(%error, "the Lease is neither taken nor renewed");
                let since = self.renewed.map(|renewed| renewed.elapsed());
                if since.is_none_or(|since| since >= self.terms.give_up) {
                    tell(leads, false);
                }
                self.terms.retry
            }
        }
    }

    fn holder(&self) -> Option<&str> {
        let (lease, _) = self.seen.as_ref()?;
        let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
        Some(holder).filter(|holder| !holder.is_empty())
    }

    /// When this replica may write the Lease.
    fn free_in(&self) -> Duration {
        let Some((_, since)) = &self.seen else {
            return Duration::ZERO;
        };
        match self.holder() {
            None => Duration::ZERO,
            Some(holder) if holder == self.identity => match self.renewed {
                Some(renewed) => self.terms.renew.saturating_sub(renewed.elapsed()),
                // Of an earlier process of this name.
                None => Duration::ZERO,
            },
            Some(_) => self.terms.expire.saturating_sub(since.elapsed()),
        }
    }

    /// Writes `holder` into the Lease as it was seen; false if it was changed
    /// since.
    async fn write(&mut self, holder: &str) -> Result<bool, kube::Error> {
        let parameters = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let now = MicroTime(Timestamp::now());
        let seconds = i32::try_from(self.terms.expire.as_secs()).unwrap_or(i32::MAX);
        let old = self.seen.as_ref().map(|(lease, _)| lease.clone());
        let same = self.holder() == Some(holder);
        let answer = match old {
            None => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.name.clone()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(LeaseSpec {
                        holder_identity: Some(holder.to_owned()),
                        lease_duration_seconds: Some(seconds.max(1)),
                        acquire_time: Some(now.clone()),
                        renew_time: Some(now),
                        lease_transitions: Some(0),
                        ..LeaseSpec::default()
                    }),
                };
                self.api.create(&parameters, &lease).await
            }
            Some(mut lease) => {
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = Some(holder.to_owned());
                spec.lease_duration_seconds = Some(seconds.max(1));
                spec.renew_time = Some(now.clone());
                if !same && !holder.is_empty() {
                    spec.acquire_time = Some(now);
                    spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
                }
                self.api.replace(&self.name, &parameters, &lease).await
            }
        };
        match answer {
            Ok(lease) => {
                self.seen = Some((lease, Instant::now()));
                Ok(true)
            }
            Err(error) if is(&error, 409) => Ok(false),
            // Deleted: the next attempt makes it again.
            Err(error) if is(&error, 404) => {
                self.seen = None;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn tell(leads: &watch::Sender<bool>, now: bool) {
    leads.send_if_modified(|leads| {
        if *leads != now {
            tracing::info!(leads = now, "the Lease changed hands");
        }
        std::mem::replace(leads, now) != now
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::tests::fake::FakeApi;

    fn lease(holder: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some("1".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                ..LeaseSpec::default()
            }),
        }
    }

    #[tokio::test]
    async fn a_list_without_the_lease_means_that_it_is_gone() {
        let client = FakeApi::default().client();
        let mut election = Election::new(client, "default", "d", "a", Terms::default());
        let list = |election: &mut Election, lease: Option<Lease>| {
            election.see(Ok(watcher::Event::Init));
            if let Some(lease) = lease {
                election.see(Ok(watcher::Event::InitApply(lease)));
            }
            election.see(Ok(watcher::Event::InitDone));
        };
        list(&mut election, Some(lease("b")));
        assert_eq!(election.holder(), Some("b"));
        let waits = election.free_in();
        assert!(!waits.is_zero());
        // A list that shows it as it was does not start its time again.
        let since = election.seen.as_ref().map(|(_, since)| *since);
        list(&mut election, Some(lease("b")));
        assert_eq!(election.seen.as_ref().map(|(_, since)| *since), since);
        list(&mut election, None);
        assert_eq!(
            (election.holder(), election.free_in()),
            (None, Duration::ZERO)
        );
    }
}
